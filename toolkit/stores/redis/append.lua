-- A server that starts or is promoted may lack the newest entries, and subscribers may have heard of them. So each run
-- of a master is a separate epoch, whose numbers are above all of the epochs before. The first run of a server is
-- epoch 0 unless it was promoted.
--
-- KEYS: the epochs of a hash tag, with the last run of each node; the index of its journals by time; then for each
-- append the stream of its journal, whose channel is named like the stream. ARGV: the run of the master (its node, empty
-- outside of a cluster; its replication id; '1' where it was promoted); where the name begins in a stream's key; then
-- the appends: a head (the highest number in use, how many entries to keep, up to which number older ones may go, both
-- -1 for none; how many entries; 1 to write the index), and the entries, each with its time and the lengths of its id
-- and data in front.
-- Answers for each append the number before its first entry, and the number of its last.
-- Redis numbers the entries (`0-*`) and remembers the last number also of a stream that was trimmed to nothing.

local run = 'run ' .. ARGV[1]
local known = redis.call('HMGET', KEYS[1], run, 'epoch')
local epoch = tonumber(known[2] or 0)
if known[1] ~= ARGV[2] then
  if known[1] or ARGV[3] == '1' then epoch = epoch + 1 end
  redis.call('HSET', KEYS[1], run, ARGV[2], 'epoch', epoch)
end
local floor_of_epoch = epoch * 1000000000
local listeners = redis.call('PUBSUB', 'SHARDNUMSUB', unpack(KEYS, 3))
local answer, index = {}, {}

for k = 3, #KEYS do
  local key, append = KEYS[k], ARGV[k + 2]
  local used, keep, floor, count, is_indexed, at = struct.unpack('>dddI4B', append)
  if used < floor_of_epoch then used = floor_of_epoch end
  local before, last, time
  for i = 1, count do
    local id_size, data_size
    time, id_size, data_size = struct.unpack('>dI4I4', append, at)
    local entry = string.sub(append, at, at + 15 + id_size + data_size)
    at = at + 16 + id_size + data_size
    local number = redis.call('XADD', key, '0-*', 'e', entry)
    if i == 1 then
      last = tonumber(string.sub(number, 3))
      before = last - 1
      if last <= used then
        redis.call('XDEL', key, number)
        redis.call('XSETID', key, string.format('0-%.0f', used))
        redis.call('XADD', key, '0-*', 'e', entry)
        last = used + 1
      end
    end
  end
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
  -- One message for all appends in a row to a journal.
  if listeners[2 * k - 4] > 0 and KEYS[k + 1] ~= key then redis.call('SPUBLISH', key, string.format('%.0f', last)) end
  local n = #answer
  answer[n + 1], answer[n + 2] = before, last
  if is_indexed == 1 then
    index[#index + 1] = string.format('%.0f', time)
    index[#index + 1] = string.sub(key, ARGV[4])
  end
end

if #index > 0 then redis.call('ZADD', KEYS[2], 'GT', unpack(index)) end
return answer
