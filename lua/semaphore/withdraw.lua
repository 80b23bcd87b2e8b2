-- Withdraw a request: undo what it did, and let no late copy of it do anything.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  requests: see counter/try_set
-- ARGV[1]  request id
-- ARGV[2]  number of permits that the request takes; negative if it adds some
-- ARGV[3]  how long to keep the request id, ms
-- ARGV[4]  channel
-- ARGV[5]  publish command: publish or spublish
--
-- Returns  1: it had taken effect, which is undone now
--          0: it had not, or was withdrawn before
--
-- Repeat   safe: a second copy finds the id withdrawn
local known = redis.call('zscore', KEYS[2], ARGV[1])
if known and tonumber(known) < 0 then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- first: after a write that needs no memory, a server without any refuses none
redis.call('zremrangebyscore', KEYS[2], string.format('%.0f', -now), string.format('%.0f', now))
local there = redis.call('exists', KEYS[1]) == 1
redis.call('zadd', KEYS[2], string.format('%.0f', -now - ARGV[3]), ARGV[1])
local free = redis.pcall('pexpire', KEYS[2], ARGV[3])
if not known or not there and type(free) ~= 'table' then
  return 0
end
if type(free) ~= 'table' then
  free = redis.pcall('incrby', KEYS[1], ARGV[2])
end
-- refused for a missing right or a value that is no integer: the next copy undoes the request
if type(free) == 'table' then
  redis.call('zadd', KEYS[2], known, ARGV[1])
  return free
end
if free > 0 then
  redis.call(ARGV[5], ARGV[4], string.format('%.0f', free))
end
return 1
