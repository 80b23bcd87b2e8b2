-- Ask holders to release their lock, and tell the clients that listen.
--
-- KEYS[1]  questions: a sorted set, holder ids by when each was asked last,
--          server time in ms
-- ARGV[1]  how long to keep a question, ms
-- ARGV[2]  channel of the questions
-- ARGV[3]  publish command: publish or spublish
-- ARGV[4]... holder ids, at least one
--
-- Returns  n: so many connections got the message
--
-- Repeat   safe: an id belongs to one hold, so a late copy asks no later hold;
--          a holder that is asked twice is asked
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for n = 4, #ARGV do
  redis.call('zadd', KEYS[1], string.format('%.0f', now), ARGV[n])
end
redis.call('zremrangebyscore', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1]))
redis.call('pexpire', KEYS[1], ARGV[1])
return redis.call(ARGV[3], ARGV[2], '1')
