-- Change the number of permits of a semaphore, and wake waiters: by a difference,
-- or to a new total. Creates a semaphore that is not there.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- KEYS[3]  permits that are out: see acquire
-- ARGV[1]  request id
-- ARGV[2]  number of permits
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  how long to keep the request id, ms
-- ARGV[5]  channel
-- ARGV[6]  publish command: publish or spublish
-- ARGV[7]  by: add the number; to: let it be the number of all permits, of those that
--          are free and those that are out together
-- ARGV[8]... ids of earlier requests of which no copy is under way any more
--
-- Returns  1: done, by this copy or by an earlier one
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id does nothing
if redis.call('zscore', KEYS[2], ARGV[1]) then
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local by = tonumber(ARGV[2])
if ARGV[7] == 'to' then
  local free = redis.call('get', KEYS[1])
  if free and not tonumber(free) then
    return redis.error_reply('WRONGTYPE the number of permits is no integer')
  end
  -- permits whose lease has ended are among those that are out
  by = by - (free and free + redis.call('zcard', KEYS[3]) or 0)
end
local left = redis.call('exists', KEYS[1]) == 0 and redis.call('zcard', KEYS[3]) or 0
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
-- by a difference, which keeps the key's TTL
local free = redis.pcall('incrby', KEYS[1], string.format('%.0f', by))
if type(free) == 'table' then
  redis.call('zrem', KEYS[2], ARGV[1])
  return free
end
if left > 0 then
  -- permits of a semaphore that was deleted are none of this one
  redis.call('zremrangebyscore', KEYS[3], '-inf', '+inf')
end
redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
if ARGV[8] then
  redis.call('zrem', KEYS[2], unpack(ARGV, 8))
end
redis.call('pexpire', KEYS[2], ARGV[4])
if tonumber(ARGV[2]) > 0 and (ARGV[7] == 'by' or by ~= 0) then
  redis.call(ARGV[6], ARGV[5], ARGV[2])
end
return 1
