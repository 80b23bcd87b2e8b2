-- Read how many permits are free and how many are out, and which.
--
-- KEYS[1]  semaphore: the number of free permits
-- KEYS[2]  permits that are out: see acquire
-- ARGV[1]  the most permits to list
--
-- Returns  {free, out, id, ms, ...}: free permits, with those whose lease has ended;
--          permits that are out; and of those, the next lease to end first, the id
--          and in how many ms its lease ends
--          nil: there is no such semaphore
--
-- Repeat   safe: nothing is changed
local free = redis.call('get', KEYS[1])
if not free then
  return false
end
if not tonumber(free) then
  return redis.error_reply('WRONGTYPE the number of permits is no integer')
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local after = '(' .. string.format('%.0f', now)
local over = redis.call('zcount', KEYS[2], '-inf', string.format('%.0f', now))
local answers = {free + over, redis.call('zcount', KEYS[2], after, '+inf')}
local out = redis.call('zrangebyscore', KEYS[2], after, '+inf', 'withscores', 'limit', 0, ARGV[1])
for i = 1, #out, 2 do
  answers[i + 2] = out[i]
  answers[i + 3] = out[i + 1] - now
end
return answers
