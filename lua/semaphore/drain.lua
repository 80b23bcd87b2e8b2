-- Take all free permits, if there are as many as the caller expects.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- ARGV[1]  request id
-- ARGV[2]  number of permits that the caller expects; may be negative
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
-- ARGV[4]  how long to keep the request id, ms
-- ARGV[5]... ids of earlier requests of which no copy is under way any more
--
-- Returns  {1, n}: done; n permits are free now, as text
--          {0, n}: nothing was done; n permits are free, as text
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: a copy that finds its id gets the same answer
local free = redis.call('get', KEYS[1]) or '0'
if not tonumber(free) then
  return redis.error_reply('WRONGTYPE the number of permits is no integer')
end
local known = redis.call('zscore', KEYS[2], ARGV[1])
if known and tonumber(known) > 0 then
  return {1, free}
end
if known or free ~= ARGV[2] then
  return {0, free}
end
if free == '0' then
  return {1, free}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
redis.call('zadd', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
-- by a difference, which keeps the key's TTL; as text, because numbers in Lua are less exact
local minus = string.gsub('-' .. free, '^%-%-', '')
-- refused for a missing right: nothing may stay
local left = redis.pcall('pexpire', KEYS[2], ARGV[4])
if type(left) ~= 'table' then
  left = redis.pcall('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
end
if type(left) ~= 'table' then
  left = redis.pcall('incrby', KEYS[1], minus)
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
return {1, '0'}
