-- Checks and changes records of several spaces, and appends to journals: all of it, or nothing.
--
-- KEYS: those of `append`, then for each space its values and their expiries.
-- ARGV: the first two of `append`; the gateway's clock; how many spaces; for each space the time when its new values
-- expire ('' for never), how many values are expected, how many change, these as `are_as_expected` and `make_changes` take
-- them; then the appends.
-- Returns the answer of `append`, or nothing if a value is not as expected.

now = tonumber(ARGV[3])
local spaces = tonumber(ARGV[4])
local last_stream = #KEYS - 2 * spaces

-- Calls a function for each space; returns where the arguments of the spaces end, or nothing if a function returns false.
local function each_space(call)
  local at = 5
  for n = 1, spaces do
    values, expiries = KEYS[last_stream + 2 * n - 1], KEYS[last_stream + 2 * n]
    local expected, changes = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if call(at + 3, expected, changes, ARGV[at]) == false then return nil end
    at = at + 3 + 3 * (expected + changes)
  end
  return at
end

-- Before the first change: Redis undoes nothing if its user may not do what this needs.
local epoch = current_epoch()
local at = each_space(are_as_expected)
if not at then return {} end
each_space(function(first, expected, changes, expires)
  if changes > 0 then make_changes(first + 3 * expected, changes, expires) end
end)
return append(last_stream, at, epoch)
