-- KEYS: the values of a space, and their expiries. ARGV: the gateway's clock, the function to call, and its arguments.

values, expiries, now = KEYS[1], KEYS[2], tonumber(ARGV[1])

-- key, limit ('' for none), expires ('' for never). Returns the count, or 0 if it would exceed the limit.
local function increment(key, limit, expires_of_first)
  local present, expires = read(key)
  local number = (tonumber(present or 0) or 0) + 1
  if limit ~= '' and number > tonumber(limit) then return 0 end
  write(key, string.format('%.0f', number), present and expires or expires_of_first)
  changed({key})
  return number
end

-- expires, how many values are expected, these as `are_as_expected` takes them, then the changes as `make_changes` takes them.
-- Returns 1, or 0 if a value is not as expected.
local function compare_and_set(expires, expected)
  if not are_as_expected(5, expected) then return 0 end
  local first = 5 + 3 * expected
  make_changes(first, (#ARGV + 1 - first) / 3, expires)
  return 1
end

return ({increment = increment, compare_and_set = compare_and_set})[ARGV[2]](unpack(ARGV, 3, 5))
