-- Take back all that an attempt may have come to: a hold, or a place in line;
-- wake the waiter whose turn it is then.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: who is past it may be dropped
-- ARGV[1]  holder id
-- ARGV[2]  wait: how long a waiter of ours keeps its place unseen, ms
-- ARGV[3]  unlock channel; with `:<holder id>` behind it a waiter's own
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1: there was something to take back
--          0: there was nothing
--
-- Repeat   safe: a second one finds nothing
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('hdel', KEYS[1], ARGV[1]) == 1
local place
local line = redis.call('lrange', KEYS[2], 0, -1)
for i, holder in ipairs(line) do
  if holder == ARGV[1] then
    place = i
    break
  end
end
if place then
  -- nobody behind has to wait any more for what I had left after the one before me
  local deadline = tonumber(redis.call('zscore', KEYS[3], ARGV[1])) or now
  local before = place > 1 and tonumber(redis.call('zscore', KEYS[3], line[place - 1])) or now
  local left = math.min(tonumber(ARGV[2]), deadline - math.max(now, before))
  for i = place + 1, left > 0 and #line or place do
    redis.call('zadd', KEYS[3], 'xx', 'incr', string.format('%.0f', -left), line[i])
  end
  redis.call('lrem', KEYS[2], 1, ARGV[1])
end
redis.call('zrem', KEYS[3], ARGV[1])
if not held and not place then
  return 0
end
if redis.call('exists', KEYS[1]) == 1 then
  return 1
end
local waiter
waiter, place = redis.call('lindex', KEYS[2], 0), 0
while waiter do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  if not deadline or deadline > now then
    -- its turn drops those before it, and lets their neighbours go with them
    redis.call(ARGV[4], ARGV[3] .. ':' .. waiter, '0')
    return 1
  end
  place = place + 1
  waiter = redis.call('lindex', KEYS[2], place)
end
redis.call('del', KEYS[2], KEYS[3])
return 1
