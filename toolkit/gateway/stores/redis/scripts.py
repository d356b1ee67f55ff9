"""What must happen at once and whole inside of Redis, as small scripts.

Every script is given all keys that it touches, and all of them lie in one slot, so a cluster runs it too (but for
the first one on a single server, where a batch writes many journals and the index of their names in one call).
A script reaches its listeners by sharded pub/sub, on channels named like the keys; with ``appendfsync always``
Redis hands these messages on only after its disk has what they tell.
"""

from __future__ import annotations

import hashlib

_TEXTS: dict[bytes, bytes] = {}


class Script:
    """A script by its digest, as Redis keeps it, and its text for a server that does not have it yet."""

    def __init__(self, text: str) -> None:
        self.text = text.encode("utf-8")
        self.digest = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode("ascii")
        _TEXTS[self.digest] = self.text


def text_of(digest: bytes) -> bytes:
    """Return the text of the script with this digest."""
    return _TEXTS[digest]


def all_texts() -> list[bytes]:
    """Return the texts of all scripts."""
    return list(_TEXTS.values())


# KEYS: the streams of all journals, then the index of names where it is written too.
# ARGV: how many journals; then for each its name, the highest number that may be used, what to keep ('' for all), up
# to which number older ones may go ('' for any), how many lines, and the lines as `lines` packs them.
# Answers for each journal the number of the line before the first of these (0 for none), and that of the last of them.
# Lines are numbered by Redis itself (`0-*`), which remembers the last number also where nothing is left of a stream.
APPEND = Script("""
local answer, index, a = {}, {}, 2
local journals = tonumber(ARGV[1])
for j = 1, journals do
  local key, name, used, keep, floor = KEYS[j], ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2], ARGV[a + 3]
  local count = tonumber(ARGV[a + 4])
  a = a + 5
  local heard = redis.call('PUBSUB', 'SHARDNUMSUB', key)[2] > 0
  local message, size = {''}, 0
  local number = redis.call('XADD', key, '0-*', 'line', ARGV[a])
  local last = tonumber(string.sub(number, 3))
  local before = last - 1
  if last <= used then
    -- A master that died took lines with it that were heard of: their numbers are not used again.
    redis.call('XDEL', key, number)
    redis.call('XSETID', key, string.format('0-%.0f', used))
    redis.call('XADD', key, '0-*', 'line', ARGV[a])
    last = used + 1
  end
  for i = a + 1, a + count - 1 do redis.call('XADD', key, '0-*', 'line', ARGV[i]) end
  last = last + count - 1
  if heard then
    for i = a, a + count - 1 do
      size = size + #ARGV[i]
      if size < 1048576 then message[#message + 1] = ARGV[i] end
    end
  end
  a = a + count
  if keep ~= '' then
    -- Within an era numbers have no holes, so they tell how many lines are above the floor.
    local above = floor ~= '' and last - tonumber(floor) or 0
    if above <= tonumber(keep) then
      redis.call('XTRIM', key, 'MAXLEN', '~', keep)
    elseif above < last % 1000000000 then
      redis.call('XTRIM', key, 'MINID', '~', string.format('0-%.0f', floor + 1))
    end
  end
  if heard then
    -- Where it is too much for a message, the message says only up to where there is something to read.
    local told = count
    if size >= 1048576 then message, told = {''}, 0 end
    message[1] = struct.pack('>ddI4', before, last, told)
    redis.call('SPUBLISH', key, table.concat(message))
  end
  answer[#answer + 1] = before
  answer[#answer + 1] = last
  index[#index + 1] = string.format('%.0f', (struct.unpack('>d', ARGV[a - 1])))
  index[#index + 1] = name
end
if KEYS[journals + 1] then
  for i = 1, #index, 2 do redis.call('ZADD', KEYS[journals + 1], 'GT', index[i], index[i + 1]) end
end
return answer
""")

# KEYS: a stream. ARGV: start of a time, its end, an id, the number to begin after, how many lines to look at.
# Answers the number of the last line looked at ('' at the end), and those that fit (of any id where it is '').
SEARCH = Script("""
local start, stop, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local lines = redis.call('XRANGE', KEYS[1], '(0-' .. ARGV[4], '+', 'COUNT', ARGV[5])
local found, last = {}, ''
for _, line in ipairs(lines) do
  local packed, at, its_id = line[2][2], tonumber(line[2][2]), line[2][4]
  if #line[2] == 2 then
    local size
    at, size = struct.unpack('>dI4', packed)
    its_id = string.sub(packed, 17, 16 + size)
  end
  if at >= start and at < stop and (id == '' or its_id == id) then found[#found + 1] = line end
end
if #lines == tonumber(ARGV[5]) then last = lines[#lines][1] end
return {last, found}
""")

# What the scripts of records share. KEYS: a space's values, its expiries, its version. ARGV: the gateway's clock, and
# the highest version that may be used.
# A value is kept as "expires:value". Every change counts the version up by one and is told on the space's channel.
# What has expired is swept a minute later, so that gateways whose clocks differ do not sweep what lives for another;
# and where everything expires, Redis lets go of the space by itself.
_RECORDS = """
local values, expiries, now = KEYS[1], KEYS[2], tonumber(ARGV[1])
local slack = 60000

local function read(key)
  local kept = redis.call('HGET', values, key)
  if not kept then return false end
  local cut = string.find(kept, ':', 1, true)
  local expires = cut and string.sub(kept, 1, cut - 1)
  -- A damaged value lives as it is: were it gone, nobody would see the damage.
  if not expires or not string.find(expires, '^%d*$') then return kept, '' end
  if expires ~= '' and tonumber(expires) <= now then return false end
  return string.sub(kept, cut + 1), expires
end

local function write(key, value, expires)
  redis.call('HSET', values, key, expires .. ':' .. value)
  if expires ~= '' then
    redis.call('ZADD', expiries, expires, key)
  elseif redis.call('ZREM', expiries, key) == 1 then
    redis.call('PERSIST', values)
  end
end

local function remove(key)
  redis.call('HDEL', values, key)
  redis.call('ZREM', expiries, key)
end

-- changes: key, value (false: removed), key, value, ...
local function changed(changes)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now - slack, 'LIMIT', 0, 16)) do remove(key) end
  local timed = redis.call('ZCARD', expiries)
  if timed > 0 and timed == redis.call('HLEN', values) then
    local latest = tonumber(redis.call('ZREVRANGE', expiries, 0, 0, 'WITHSCORES')[2])
    redis.call('PEXPIRE', values, latest - now + slack)
    redis.call('PEXPIRE', expiries, latest - now + slack)
  elseif timed > 0 then
    redis.call('PERSIST', values)
    redis.call('PERSIST', expiries)
  end
  local version, used = redis.call('INCR', KEYS[3]), tonumber(ARGV[2])
  if version <= used then
    version = used + 1
    redis.call('SET', KEYS[3], version)
  end
  if redis.call('PUBSUB', 'SHARDNUMSUB', values)[2] > 0 then
    local message = {struct.pack('>dI4', version, #changes / 2)}
    for i = 1, #changes, 2 do
      local key, value = changes[i], changes[i + 1]
      message[#message + 1] = struct.pack('>I4I1I4', #key, value and 1 or 0, value and #value or 0)
      message[#message + 1] = key
      message[#message + 1] = value or ''
    end
    redis.call('SPUBLISH', values, table.concat(message))
  end
  return version
end
"""

# ARGV: now, used, key, value, expires ('' for never). Answers {0, version}.
PUT = Script(
    _RECORDS
    + """
write(ARGV[3], ARGV[4], ARGV[5])
return {0, changed({ARGV[3], ARGV[4]})}
"""
)

# ARGV: now, used, key. Answers {value or nil, version (0 where nothing changed)}.
TAKE = Script(
    _RECORDS
    + """
local value = read(ARGV[3])
if not value then return {false, 0} end
remove(ARGV[3])
return {value, changed({ARGV[3], false})}
"""
)

# ARGV: now, used, key, limit ('' for none), expires ('' for never). Answers {count or 0, version}.
COUNT = Script(
    _RECORDS
    + """
local present, expires = read(ARGV[3])
local number = (tonumber(present or 0) or 0) + 1
if ARGV[4] ~= '' and number > tonumber(ARGV[4]) then return {0, 0} end
local value = string.format('%.0f', number)
write(ARGV[3], value, present and expires or ARGV[5])
return {number, changed({ARGV[3], value})}
"""
)

# ARGV: now, used, expires, how many are expected, each one's key, '1' or '' (absent), value; then the changes likewise.
# Answers {1 or 0, version}.
SWAP = Script(
    _RECORDS
    + """
local a = 5
for i = 1, tonumber(ARGV[4]) do
  local value = read(ARGV[a])
  if ARGV[a + 1] == '' and value or ARGV[a + 1] ~= '' and value ~= ARGV[a + 2] then return {0, 0} end
  a = a + 3
end
local changes = {}
for i = a, #ARGV, 3 do
  changes[#changes + 1] = ARGV[i]
  if ARGV[i + 1] == '' then
    remove(ARGV[i])
    changes[#changes + 1] = false
  else
    write(ARGV[i], ARGV[i + 2], ARGV[3])
    changes[#changes + 1] = ARGV[i + 2]
  end
end
return {1, changed(changes)}
"""
)

# Answers {version, [key, kept, ...]}: both of one moment.
SNAPSHOT = Script("""
return {tonumber(redis.call('GET', KEYS[3]) or 0), redis.call('HGETALL', KEYS[1])}
""")

# KEYS: the eras of one world. ARGV: the name of a master's life, the server that lives it, and '1' where it has taken
# the place of another. Answers the era: 0 for the first life of a server, else one above all that were.
ERA = Script("""
local era = redis.call('HGET', KEYS[1], 'life ' .. ARGV[1])
if not era then
  era = 0
  if redis.call('HSETNX', KEYS[1], 'server ' .. ARGV[2], 1) == 0 or ARGV[3] == '1' then
    era = redis.call('HINCRBY', KEYS[1], 'eras', 1)
  end
  redis.call('HSET', KEYS[1], 'life ' .. ARGV[1], era)
end
return tonumber(era)
""")

# KEYS: a channel. Says nothing on it: who hears that is connected to the server that writes go to. A replica refuses.
BEAT = Script("""#!lua flags=allow-oom
return redis.call('SPUBLISH', KEYS[1], '')
""")
