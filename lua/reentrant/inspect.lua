-- Read the holders, their hold counts, and the TTL.
--
-- KEYS[1]  lock
-- ARGV[1]  the most fields to read: another program may have written a hash of
--          any size, and the server is busy while it is read
-- ARGV[2]  may be missing: the only holder to read
--
-- Returns  {pttl, {field, count, ...}, fields}: pttl in ms, -1 without expiry, -2
--          when the lock is free; the holders, and the mode of a read/write lock;
--          how many fields there are, which may be more
--
-- Repeat   safe: reads only
local fields, names = redis.call('hlen', KEYS[1]), {'mode', ARGV[2]}
if not ARGV[2] and fields <= tonumber(ARGV[1]) then
  names = redis.call('hkeys', KEYS[1])
elseif not ARGV[2] then
  local page = redis.call('hscan', KEYS[1], '0', 'count', ARGV[1])[2]
  for i = 1, math.min(#page, 2 * ARGV[1]), 2 do
    if page[i] ~= 'mode' then
      names[#names + 1] = page[i]
    end
  end
end
local holders = {}
-- what others wrote there may be of any size: a long id is cut, and a value that
-- is too long for a count is not read
for _, holder in ipairs(names) do
  local is_count = redis.call('hstrlen', KEYS[1], holder) <= 20
  local count = is_count and redis.call('hget', KEYS[1], holder) or not is_count and ''
  if count then
    holders[#holders + 1] = holder:sub(1, 128)
    holders[#holders + 1] = count
  end
end
return {redis.call('pttl', KEYS[1]), holders, fields}
