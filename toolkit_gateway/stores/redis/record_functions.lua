-- Functions of the scripts that change records.
--
-- A value is stored as "expires:value". The keys of every change are published. Expired values are removed a minute
-- later, because the clocks of gateways differ; a space in which every value expires is a key that Redis expires.

-- The values of a space, their expiries, and the gateway's clock: a script sets them.
local values, expiries, now
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

-- Whether the values are as expected. ARGV from `first` on: each one's key, '1' or '' (absent), value.
local function are_as_expected(first, count)
  for i = first, first + 3 * count - 1, 3 do
    local value = read(ARGV[i])
    if ARGV[i + 1] == '' and value or ARGV[i + 1] ~= '' and value ~= ARGV[i + 2] then return false end
  end
  return true
end

-- Makes changes. ARGV from `first` on: each one's key, '1' or '' (remove), value.
local function make_changes(first, count, expires)
  local keys = {}
  for i = first, first + 3 * count - 1, 3 do
    keys[#keys + 1] = ARGV[i]
    if ARGV[i + 1] == '' then remove(ARGV[i]) else write(ARGV[i], ARGV[i + 2], expires) end
  end
  changed(keys)
end
