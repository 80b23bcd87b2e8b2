-- Lower the count of a latch by one. At 0 remove the latch and wake its waiters.
--
-- KEYS[1]  latch: its count
-- KEYS[2]  requests: see counter/try_set
-- ARGV[1]  request id
-- ARGV[2]  not-after: server time in ms past which this copy does nothing
-- ARGV[3]  how long to keep the request id, ms
-- ARGV[4]  channel
-- ARGV[5]  publish command: publish or spublish
-- ARGV[6]... ids of earlier requests of which no copy is under way any more
--
-- Returns  1: done, by this copy or by an earlier one
--          0: there is no such latch
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id does nothing
if redis.call('zscore', KEYS[2], ARGV[1]) then
  return 1
end
if redis.call('exists', KEYS[1]) == 0 then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[2]) then
  return {now}
end
-- first: after a write that needs no memory, a server without any refuses none
redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
-- this id is not there: without the right to undo it nothing is begun
redis.call('zrem', KEYS[2], ARGV[1], unpack(ARGV, 6))
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[3]), ARGV[1])
-- refused for a missing right or a value that is no integer: nothing may stay
local count = redis.pcall('pexpire', KEYS[2], ARGV[3])
if type(count) ~= 'table' then
  count = redis.pcall('incrby', KEYS[1], '-1')
end
if type(count) == 'table' then
  redis.call('zrem', KEYS[2], ARGV[1])
  return count
end
if count <= 0 then
  redis.call('del', KEYS[1])
end
-- a latch that was below 1 before tells nobody, as Redisson's
if count == 0 then
  redis.call(ARGV[5], ARGV[4], '0')
end
return 1
