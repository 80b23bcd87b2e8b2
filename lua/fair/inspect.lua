-- Read the holders and the waiters, and how long each stays.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms; behind the point, in 1024ths,
--          when a waiter of ours last asked
-- ARGV[1]  wait: how long a waiter of ours keeps its place, ms, since it last asked
-- ARGV[2]  the most fields, and the most waiters to read: see reentrant/inspect
--
-- Returns  {pttl, {holder, count, ...}, fields, {waiter, ms, ...}, line}: pttl in
--          ms, -1 without expiry, -2 when the lock is free; how many fields there
--          are, which may be more; the first waiters in order, each with how long
--          it keeps its place (negative: overdue; nothing: without a deadline);
--          how many waiters there are
--
-- Repeat   safe: reads only
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- how long it keeps its place if it does not ask again; as in acquire
local function kept_for(holder, deadline)
  local left, mark = math.floor(deadline) - now, deadline % 1 * 1024
  if mark == 0 or holder:sub(-20, -20) ~= ':' or holder:sub(-19) < '4611686018427387904' then
    return left
  end
  local step = math.ceil(ARGV[1] / 32)
  local unseen = (math.floor(now / step) + 1 - mark) % 1023
  if unseen > 1023 - 64 then
    unseen = 0
  end
  return math.min(left, (33 - unseen) * step - now % step)
end

local waiters = {}
for _, waiter in ipairs(redis.call('lrange', KEYS[2], 0, ARGV[2] - 1)) do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  waiters[#waiters + 1] = waiter:sub(1, 128)
  waiters[#waiters + 1] = deadline and string.format('%.0f', kept_for(waiter, deadline)) or ''
end
local fields, names = redis.call('hlen', KEYS[1]), {}
if fields <= tonumber(ARGV[2]) then
  names = redis.call('hkeys', KEYS[1])
else
  local page = redis.call('hscan', KEYS[1], '0', 'count', ARGV[2])[2]
  for i = 1, math.min(#page, 2 * ARGV[2]), 2 do
    names[#names + 1] = page[i]
  end
end
local holders = {}
-- what others wrote there may be of any size: a long id is cut, and a value that
-- is too long for a count is not read
for _, holder in ipairs(names) do
  local is_count = redis.call('hstrlen', KEYS[1], holder) <= 20
  holders[#holders + 1] = holder:sub(1, 128)
  holders[#holders + 1] = is_count and redis.call('hget', KEYS[1], holder) or ''
end
return {redis.call('pttl', KEYS[1]), holders, fields, waiters, redis.call('llen', KEYS[2])}
