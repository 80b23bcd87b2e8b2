-- Read whether a holder was asked to release its lock.
--
-- KEYS[1]  questions: see ask
-- ARGV[1]  holder id
--
-- Returns  n: it was asked so many ms ago
--          -1: it was not asked
--
-- Repeat   safe: reads only
local asked = redis.call('zscore', KEYS[1], ARGV[1])
if not asked then
  return -1
end
local time = redis.call('time')
-- the clock may have been set back
return math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - asked)
