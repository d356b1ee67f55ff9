-- Functions of the scripts that append.
--
-- After a failover or a restart, a master may lack the newest entries, which subscribers may already have received. So
-- each run of a master is a separate epoch, whose numbers are above those of all epochs before. The first run of a
-- server is epoch 0 unless it was promoted, or unless the gateway knows of epochs that the server has lost.
-- Redis numbers the entries (`0-*`) and remembers the last number of a stream even if all its entries were trimmed.
--
-- KEYS: the epochs of a hash tag, with the last run of each node; the index of its journals by time; then for each
-- append the stream of its journal, whose channel is named like the stream; other keys may follow.
-- ARGV: where the journal's name begins in a stream's key; the epoch of a server that knows none; others may follow.

local numbers_per_epoch = 1000000000
-- Updating the index costs as much as an append, so the time of a busy journal in the index may lag by so many
-- milliseconds.
local lag_of_index = 5000

local function current_epoch()
  local info = redis.call('INFO', 'replication', 'cluster')
  local id = string.match(info, 'master_replid:(%x+)')
  local node, is_promoted = '', false
  if string.find(info, 'cluster_enabled:1', 1, true) then  -- without a cluster, there is one master at a time
    node = redis.call('CLUSTER', 'MYID')
    is_promoted = string.find(string.match(info, 'master_replid2:(%x+)'), '[^0]')
  end
  local stored = redis.call('HMGET', KEYS[1], 'run ' .. node, 'epoch')
  local epoch = tonumber(stored[2] or ARGV[2])
  if stored[1] ~= id then
    if stored[1] or is_promoted then epoch = epoch + 1 end
    redis.call('HSET', KEYS[1], 'run ' .. node, id, 'epoch', epoch)
  end
  return epoch
end

-- Adds the entries ARGV[first] to ARGV[last]; returns the number before them.
local function add(key, used, first, last)
  local number = redis.call('XADD', key, '0-*', 'e', ARGV[first])
  local before = tonumber(string.sub(number, 3)) - 1
  if before < used then
    redis.call('XDEL', key, number)
    redis.call('XSETID', key, string.format('0-%.0f', used))
    first = first - 1
  end
  for i = first + 1, last do redis.call('XADD', key, '0-*', 'e', ARGV[i]) end
  return before
end

-- Trimming drops whole nodes of 100 entries, so it need not be tried at every append.
local function trim(key, keep, floor, last, count)
  if keep < 0 or math.floor(last / 16) == math.floor((last - count) / 16) then return end
  -- Within an epoch no number is left out, so the difference is the number of entries above the floor.
  local above = floor >= 0 and last - floor or 0
  if above <= keep then
    redis.call('XTRIM', key, 'MAXLEN', '~', keep)
  elseif above < last % numbers_per_epoch then
    redis.call('XTRIM', key, 'MINID', '~', string.format('0-%.0f', floor + 1))
  end
end

local function index(names, times)
  local indexed, changes = redis.call('ZMSCORE', KEYS[2], unpack(names)), {}
  for n, time in ipairs(times) do
    if not indexed[n] or tonumber(time) >= indexed[n] + lag_of_index then
      changes[#changes + 1] = time
      changes[#changes + 1] = names[n]
    end
  end
  if #changes > 0 then redis.call('ZADD', KEYS[2], 'GT', unpack(changes)) end
end

-- `last_key`: the last key that is a stream; `epoch`: of `current_epoch`. ARGV from `at` on: for each append the highest number in use, how many
-- entries to keep, up to which number older ones may be dropped (both -1 for no limit), the time of the last entry, how
-- many entries, and the entries.
-- Returns for each append the number before its first entry, and the number of its last; then the epoch.
local function append(last_key, at, epoch)
  local answer, names, times = {}, {}, {}
  if last_key > 2 then
    local floor_of_epoch = epoch * numbers_per_epoch
    local listeners = redis.call('PUBSUB', 'SHARDNUMSUB', unpack(KEYS, 3, last_key))
    for n = 1, last_key - 2 do
      local key = KEYS[n + 2]
      local used, keep, floor = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
      local count = tonumber(ARGV[at + 4])
      names[n], times[n] = string.sub(key, ARGV[1]), ARGV[at + 3]
      used = math.max(used, floor_of_epoch)
      local before = add(key, used, at + 5, at + 4 + count)
      local last = math.max(before, used) + count
      at = at + 5 + count
      trim(key, keep, floor, last, count)
      -- One message for all appends in a row to a journal.
      if listeners[2 * n] > 0 and (n == last_key - 2 or KEYS[n + 3] ~= key) then
        redis.call('SPUBLISH', key, string.format('%.0f', last))
      end
      answer[2 * n - 1], answer[2 * n] = before, last
    end
    index(names, times)
  end
  answer[#answer + 1] = epoch
  return answer
end
