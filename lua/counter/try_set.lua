-- Create a counter, a semaphore or a latch, and publish a message.
--
-- KEYS[1]  counter: its number
-- KEYS[2]  requests: ids of requests that took effect, with the server time in ms
--          until which they are kept; one that was cancelled or withdrawn has
--          minus that time
-- KEYS[3]  of an expirable semaphore only: permits that are out, see expirable/acquire
-- ARGV[1]  request id
-- ARGV[2]  number
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  how long to keep the request id, ms
-- ARGV[5]  channel
-- ARGV[6]  publish command: publish or spublish
-- ARGV[7]  message
-- ARGV[8]... ids of earlier requests of which no copy is under way any more
--
-- Returns  1: done, by this copy or by an earlier one
--          0: there is such a counter already
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id gets the same answer
if redis.call('zscore', KEYS[2], ARGV[1]) then
  return 1
end
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
-- first the step that can fail: the key may be of another type
local left = KEYS[3] and redis.call('zcard', KEYS[3]) or 0
redis.call('set', KEYS[1], ARGV[2])
if left > 0 then
  -- permits of a semaphore that was deleted are none of this one
  redis.call('zremrangebyscore', KEYS[3], '-inf', '+inf')
end
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
if ARGV[8] then
  redis.call('zrem', KEYS[2], unpack(ARGV, 8))
end
redis.call('pexpire', KEYS[2], ARGV[4])
redis.call(ARGV[6], ARGV[5], ARGV[7])
return 1
