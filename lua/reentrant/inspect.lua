-- Read the holders, their hold counts, and the TTL.
--
-- KEYS[1]  lock
--
-- Returns  {pttl, {holder, count, ...}}: pttl in ms, -1 without expiry, -2 when
--          the lock is free
--
-- Repeat   safe: reads only
local holders = {}
-- what others wrote there may be of any size: a long id is cut, and a value that
-- is too long for a count is not read
for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
  local is_count = redis.call('hstrlen', KEYS[1], holder) <= 20
  holders[#holders + 1] = holder:sub(1, 128)
  holders[#holders + 1] = is_count and redis.call('hget', KEYS[1], holder) or ''
end
return {redis.call('pttl', KEYS[1]), holders}
