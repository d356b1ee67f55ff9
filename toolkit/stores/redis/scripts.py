"""What must happen in Redis in one step, as Lua scripts.

All keys of a call lie in one slot, so a cluster runs the scripts too. Subscribers hear of a change by sharded pub/sub
on a channel named like the key; with ``appendfsync always`` Redis delivers a message after its disk has the change.
"""

from __future__ import annotations

import hashlib

_TEXTS: list[bytes] = []


class Script:
    """A script, and the digest by which Redis knows it."""

    def __init__(self, text: str) -> None:
        data = text.encode("utf-8")
        self.digest = hashlib.sha1(data, usedforsecurity=False).hexdigest().encode("ascii")
        _TEXTS.append(data)


def all_texts() -> list[bytes]:
    """Return the texts of all scripts."""
    return _TEXTS


# A server that starts or is promoted may lack the newest changes, and subscribers may have heard of them. So each run
# of a master is a separate epoch, whose numbers are above all of the epochs before. The first run of a server is
# epoch 0 unless it was promoted.
#
# KEYS: the epochs of a hash tag, with the last run of each node; the index of its journals by time; then a stream for
# each journal. ARGV: the run of the master (its node, empty outside of a cluster; its replication id; '1' where it was
# promoted), and where the name begins in a stream's key; then for each journal a head (the highest number in use, how
# many entries to keep, up to which number older ones may go, -1 for none; how many entries), and the entries.
# Answers for each journal the number before the first of these entries, and the number of the last of them.
# Redis numbers the entries (`0-*`) and remembers the last number also of a stream that was trimmed to nothing.
APPEND = Script("""
local function first_number(key)
  local known = redis.call('HMGET', key, 'run ' .. ARGV[1], 'epoch')
  local epoch = tonumber(known[2] or 0)
  if known[1] ~= ARGV[2] then
    if known[1] or ARGV[3] == '1' then epoch = epoch + 1 end
    redis.call('HSET', key, 'run ' .. ARGV[1], ARGV[2], 'epoch', epoch)
  end
  return epoch * 1000000000
end

local answer, index, streams, a = {}, {}, {}, 5
for i = 3, #KEYS do streams[i - 2] = KEYS[i] end
local listeners = redis.call('PUBSUB', 'SHARDNUMSUB', unpack(streams))
local floor_of_epoch = first_number(KEYS[1])
for j, key in ipairs(streams) do
  local used, keep, floor, count = struct.unpack('>dddI4', ARGV[a])
  used, a = math.max(used, floor_of_epoch), a + 1
  local number = redis.call('XADD', key, '0-*', 'e', ARGV[a])
  local last = tonumber(string.sub(number, 3))
  local before = last - 1
  if last <= used then
    redis.call('XDEL', key, number)
    redis.call('XSETID', key, string.format('0-%.0f', used))
    redis.call('XADD', key, '0-*', 'e', ARGV[a])
    last = used + 1
  end
  for i = a + 1, a + count - 1 do redis.call('XADD', key, '0-*', 'e', ARGV[i]) end
  last = last + count - 1
  -- Trimming drops whole nodes of 100 entries, so it need not be tried at every append.
  if keep >= 0 and math.floor(last / 16) ~= math.floor((last - count) / 16) then
    -- Within an epoch numbers have no holes, so they tell how many entries are above the floor.
    local above = floor >= 0 and last - floor or 0
    if above <= keep then
      redis.call('XTRIM', key, 'MAXLEN', '~', keep)
    elseif above < last % 1000000000 then
      redis.call('XTRIM', key, 'MINID', '~', string.format('0-%.0f', floor + 1))
    end
  end
  if listeners[2 * j] > 0 then
    local message, size = {''}, 0
    for i = a, a + count - 1 do
      size = size + #ARGV[i]
      if size < 1048576 then message[#message + 1] = ARGV[i] end
    end
    -- Subscribers read entries that are too large for a message.
    local sent = count
    if size >= 1048576 then message, sent = {''}, 0 end
    message[1] = struct.pack('>ddI4', before, last, sent)
    redis.call('SPUBLISH', key, table.concat(message))
  end
  a = a + count
  answer[#answer + 1] = before
  answer[#answer + 1] = last
  index[#index + 1] = string.format('%.0f', (struct.unpack('>d', ARGV[a - 1])))
  index[#index + 1] = string.sub(key, ARGV[4])
end
redis.call('ZADD', KEYS[2], 'GT', unpack(index))
return answer
""")

# What the scripts of records share. KEYS: the values of a space, and their expiries. ARGV[1]: the gateway's clock. A
# value is kept as "expires:value". The keys of every change are published. Expired values are removed a minute later,
# because the clocks of gateways differ; a space in which every value expires is a key that Redis expires.
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

local function changed(keys)
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
  if redis.call('PUBSUB', 'SHARDNUMSUB', values)[2] > 0 then
    redis.call('SPUBLISH', values, cjson.encode(keys))
  end
end
"""

# ARGV from 2: key. Answers the value, or nil.
TAKE = Script(
    _RECORDS
    + """
local value = read(ARGV[2])
if not value then return false end
remove(ARGV[2])
changed({ARGV[2]})
return value
"""
)

# ARGV from 2: key, limit ('' for none), expires ('' for never). Answers the count, or 0.
COUNT = Script(
    _RECORDS
    + """
local present, expires = read(ARGV[2])
local number = (tonumber(present or 0) or 0) + 1
if ARGV[3] ~= '' and number > tonumber(ARGV[3]) then return 0 end
write(ARGV[2], string.format('%.0f', number), present and expires or ARGV[4])
changed({ARGV[2]})
return number
"""
)

# ARGV from 2: expires, how many values are expected, each one's key, '1' or '' (absent), value; then the changes
# likewise. Answers 1 or 0.
SWAP = Script(
    _RECORDS
    + """
local a = 4
for i = 1, tonumber(ARGV[3]) do
  local value = read(ARGV[a])
  if ARGV[a + 1] == '' and value or ARGV[a + 1] ~= '' and value ~= ARGV[a + 2] then return 0 end
  a = a + 3
end
local keys = {}
for i = a, #ARGV, 3 do
  keys[#keys + 1] = ARGV[i]
  if ARGV[i + 1] == '' then remove(ARGV[i]) else write(ARGV[i], ARGV[i + 2], ARGV[2]) end
end
changed(keys)
return 1
"""
)

# KEYS: a channel. A subscriber who hears this is connected to the master; a replica refuses it.
BEAT = Script("""#!lua flags=allow-oom
return redis.call('SPUBLISH', KEYS[1], '')
""")

# Changes nothing, and is refused where the user may not write.
PROBE = Script("return redis.call('HDEL', KEYS[1], '')")
