-- Take permits if there are enough of them.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- ARGV[1]  request id
-- ARGV[2]  number of permits, at least 1
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  how long to keep the request id, ms
-- ARGV[5]... ids of earlier requests of which no copy is under way any more
--
-- Returns  {1, n}: granted; n permits are free now
--          {0, n}: refused; n permits are free
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id gets the same answer; one that finds
--          its id withdrawn takes nothing
local known = redis.call('zscore', KEYS[2], ARGV[1])
local number = redis.call('get', KEYS[1])
local free = tonumber(number or '0')
if not free then
  return redis.error_reply('WRONGTYPE the number of permits is no integer')
end
if known and tonumber(known) > 0 then
  -- a write, for WAIT: since Redis 7.2 it waits for the writes of its own connection only
  redis.call('pexpire', KEYS[2], ARGV[4])
  return {1, free}
end
if known or not number or free < tonumber(ARGV[2]) then
  return {0, free}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
-- refused for a missing right or a value that is no integer: nothing may stay
local left = redis.pcall('pexpire', KEYS[2], ARGV[4])
if type(left) ~= 'table' then
  left = redis.pcall('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
end
if type(left) ~= 'table' then
  left = redis.pcall('incrby', KEYS[1], '-' .. ARGV[2])
end
if type(left) == 'table' then
  if type(redis.pcall('zrem', KEYS[2], ARGV[1])) == 'table' then
    redis.call('zadd', KEYS[2], string.format('%.0f', -now - ARGV[4]), ARGV[1])
  end
  return left
end
if ARGV[5] then
  redis.call('zrem', KEYS[2], unpack(ARGV, 5))
end
return {1, left}
