-- Read when the leases of permits end.
--
-- KEYS[1]  permits that are out: see acquire
-- ARGV[1]... permit ids
--
-- Returns  one integer for each permit: its lease ends in so many ms
--          0: there is no such permit, or its lease has ended
--
-- Repeat   safe: nothing is changed
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers = {}
for i, id in ipairs(ARGV) do
  local ends = redis.call('zscore', KEYS[1], id)
  answers[i] = ends and math.max(0, ends - now) or 0
end
return answers
