-- Undo what an attempt may have got: a hold, or a place in line. Then wake
-- the waiter whose turn it is.
--
-- KEYS[1]  lock
-- KEYS[2]  queue of waiters
-- KEYS[3]  their deadlines, server time in ms: a waiter past its own may be removed;
--          after the point, in 1024ths: when a waiter of ours last asked
-- ARGV[1]  holder id
-- ARGV[2]  wait: how long a waiter of ours keeps its place, ms, since it last asked
-- ARGV[3]  unlock channel; followed by `:<holder id>` it is a waiter's own
-- ARGV[4]  publish command: publish or spublish
--
-- Returns  1: there was something to undo
--          0: there was nothing
--
-- Repeat   safe: a second copy finds nothing
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- first the steps that can fail: the keys of the line may be of another type
redis.call('zrem', KEYS[3], ARGV[1])
local stood = redis.call('lrem', KEYS[2], 1, ARGV[1]) == 1
local held = redis.call('hdel', KEYS[1], ARGV[1]) == 1
if not held and not stood then
  return 0
end
if redis.call('exists', KEYS[1]) == 1 then
  return 1
end

-- how long it keeps its place if it does not ask again; as in acquire
local function kept_for(holder, deadline)
  local left, mark = math.floor(deadline) - now, deadline % 1 * 1024
  if mark == 0 or holder:sub(-20, -20) ~= ':' or holder:sub(-19) < '4611686018427387904' then
    return left
  end
  local step = math.ceil(ARGV[2] / 32)
  local unseen = (math.floor(now / step) + 1 - mark) % 1023
  if unseen > 1023 - 64 then
    unseen = 0
  end
  return math.min(left, (33 - unseen) * step - now % step)
end

local waiter = redis.call('lindex', KEYS[2], 0)
while waiter do
  local deadline = tonumber(redis.call('zscore', KEYS[3], waiter))
  if not deadline or kept_for(waiter, deadline) > 0 then
    redis.call(ARGV[4], ARGV[3] .. ':' .. waiter, '0')
    return 1
  end
  -- Redisson would keep the place until its deadline
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], waiter)
  waiter = redis.call('lindex', KEYS[2], 0)
end
redis.call('del', KEYS[2], KEYS[3])
return 1
