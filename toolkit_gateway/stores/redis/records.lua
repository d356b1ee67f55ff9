-- KEYS: the values of a space, and their expiries. ARGV: the gateway's clock, the function to call, and its arguments.
-- A value is stored as "expires:value". The keys of every change are published. Expired values are removed a minute
-- later, because the clocks of gateways differ; a space in which every value expires is a key that Redis expires.

local values, expiries, now = KEYS[1], KEYS[2], tonumber(ARGV[1])
local grace = 60000

local function read(key)
  local stored = redis.call('HGET', values, key)
  if not stored then return false end
  local cut = string.find(stored, ':', 1, true)
  local expires = cut and string.sub(stored, 1, cut - 1)
  -- A damaged value is returned as it is: if it were absent, nobody would notice the damage.
  if not expires or not string.find(expires, '^%d*$') then return stored, '' end
  if expires ~= '' and tonumber(expires) <= now then return false end
  return string.sub(stored, cut + 1), expires
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
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now - grace, 'LIMIT', 0, 16)) do remove(key) end
  local timed = redis.call('ZCARD', expiries)
  if timed > 0 and timed == redis.call('HLEN', values) then
    local latest = tonumber(redis.call('ZREVRANGE', expiries, 0, 0, 'WITHSCORES')[2])
    redis.call('PEXPIRE', values, latest - now + grace)
    redis.call('PEXPIRE', expiries, latest - now + grace)
  elseif timed > 0 then
    redis.call('PERSIST', values)
    redis.call('PERSIST', expiries)
  end
  if redis.call('PUBSUB', 'SHARDNUMSUB', values)[2] > 0 then
    redis.call('SPUBLISH', values, cjson.encode(keys))
  end
end

-- key, limit ('' for none), expires ('' for never). Returns the count, or 0 if it would exceed the limit.
local function increment(key, limit, expires_of_first)
  local present, expires = read(key)
  local number = (tonumber(present or 0) or 0) + 1
  if limit ~= '' and number > tonumber(limit) then return 0 end
  write(key, string.format('%.0f', number), present and expires or expires_of_first)
  changed({key})
  return number
end

-- expires, how many values are expected, each one's key, '1' or '' (absent), value; then these three for each change.
-- Returns 1, or 0 if a value is not as expected.
local function compare_and_set(expires, expected)
  local a = 5 + 3 * tonumber(expected)
  for i = 5, a - 1, 3 do
    local value = read(ARGV[i])
    if ARGV[i + 1] == '' and value or ARGV[i + 1] ~= '' and value ~= ARGV[i + 2] then return 0 end
  end
  local keys = {}
  for i = a, #ARGV, 3 do
    keys[#keys + 1] = ARGV[i]
    if ARGV[i + 1] == '' then remove(ARGV[i]) else write(ARGV[i], ARGV[i + 2], expires) end
  end
  changed(keys)
  return 1
end

return ({increment = increment, compare_and_set = compare_and_set})[ARGV[2]](unpack(ARGV, 3, 5))
