-- Renew a batch of holds.
--
-- KEYS[i]     lock
-- ARGV[2i-1]  holder id of the hold on KEYS[i]
-- ARGV[2i]    lease, ms
--
-- Returns  one integer for each lock
--          1: renewed
--          0: the lock is free
--          -1: another holder has the lock
--
-- Repeat   safe: the TTL never falls, and a hold that is gone stays gone
local answers = {}
for i, key in ipairs(KEYS) do
  local lease = ARGV[2 * i]
  -- pcall: a key of another type must not stop the renewals of the others
  local held = redis.pcall('hexists', key, ARGV[2 * i - 1])
  if held == 1 then
    if redis.call('pttl', key) < tonumber(lease) then
      redis.call('pexpire', key, lease)
    end
    answers[i] = 1
  elseif redis.call('exists', key) == 0 then
    answers[i] = 0
  else
    answers[i] = -1
  end
end
return answers
