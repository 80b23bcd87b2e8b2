-- Return or add permits, and wake waiters. With a negative number, take permits
-- away, whether or not they are free.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- ARGV[1]  request id
-- ARGV[2]  number of permits
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  how long to keep the request id, ms
-- ARGV[5]  channel
-- ARGV[6]  publish command: publish or spublish
-- ARGV[7]  1: only if the semaphore exists; 0: create it with these permits
-- ARGV[8]... ids of earlier requests of which no copy is under way any more
--
-- Returns  1: done
--          0: an earlier copy did it
--          -1: there is no such semaphore
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id does nothing
if redis.call('zscore', KEYS[2], ARGV[1]) then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
if ARGV[7] == '1' and redis.call('exists', KEYS[1]) == 0 then
  return -1
end
-- first: after a write that needs no memory, a server without any refuses none
redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
-- this id is not there: without the right to undo it nothing is begun
redis.call('zrem', KEYS[2], ARGV[1], unpack(ARGV, 8))
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
-- refused for a missing right or a value that is no integer: nothing may stay
local free = redis.pcall('pexpire', KEYS[2], ARGV[4])
if type(free) ~= 'table' then
  free = redis.pcall('incrby', KEYS[1], ARGV[2])
end
if type(free) == 'table' then
  redis.call('zrem', KEYS[2], ARGV[1])
  return free
end
-- Redisson's listeners fail at a negative number, and wake nobody for 0
if free > 0 then
  redis.call(ARGV[6], ARGV[5], string.format('%.0f', free))
end
return 1
