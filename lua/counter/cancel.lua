-- Let no late copy of a request do anything. For a request that did nothing.
--
-- KEYS[1]  requests: see try_set
-- ARGV[1]  request id
-- ARGV[2]  how long to keep the request id, ms
--
-- Returns  1: no copy does anything from now on
--          0: a copy took effect
--
-- Repeat   safe: a second copy finds the id cancelled, and gets the same answer
local known = redis.call('zscore', KEYS[1], ARGV[1])
if known then
  return tonumber(known) < 0 and 1 or 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zadd', KEYS[1], string.format('%.0f', -now - ARGV[2]), ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
