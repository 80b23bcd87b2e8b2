-- Who holds the lock and who waits for it, for how long still.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms
--
-- Returns  {pttl, {holder, count, ...}, {waiter, ms, ...}}: pttl in ms, -1
--          without expiry, -2 when the lock is free; waiters in order, each
--          with how long it keeps its place unseen (negative: overdue; nothing:
--          without a deadline)
--
-- Repeat   safe: reads only
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiters = {}
for _, waiter in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  waiters[#waiters + 1] = waiter
  waiters[#waiters + 1] = deadline and string.format('%.0f', deadline - now) or ''
end
return {redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1]), waiters}
