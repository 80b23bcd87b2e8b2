-- Give a permit another lease, longer or shorter. It counts from now.
--
-- KEYS[1]  permits that are out: see acquire
-- ARGV[1]  permit id
-- ARGV[2]  lease, ms
-- ARGV[3]  not-after: server time in ms past which this copy does nothing
--
-- Returns  1: done
--          0: there is no such permit, or its lease has ended
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   safe: the lease counts from the last copy
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[3]) then
  return {now}
end
local ends = redis.call('zscore', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then
  return 0
end
-- first: after a write that needs no memory, a server without any refuses none
redis.call('zrem', KEYS[1], '')
redis.call('zadd', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
return 1
