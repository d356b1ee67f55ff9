-- KEYS: the index of names, a stream. ARGV: where the journal's name begins in the stream's key, the time of the last
-- entry, then the number and the packed data of each entry. Adds the entries with the numbers that they have elsewhere.
for i = 3, #ARGV, 2 do redis.call('XADD', KEYS[2], '0-' .. ARGV[i], 'e', ARGV[i + 1]) end
redis.call('ZADD', KEYS[1], 'GT', ARGV[2], string.sub(KEYS[2], ARGV[1]))
return #ARGV
