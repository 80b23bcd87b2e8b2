-- Renew a batch of holds of plain locks.
--
-- KEYS[i]     lock
-- ARGV[2i-1]  token of the hold on KEYS[i]
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
  local holder = redis.pcall('get', key)
  if holder == ARGV[2 * i - 1] then
    if redis.call('pttl', key) < tonumber(lease) then
      redis.call('pexpire', key, lease)
    end
    answers[i] = 1
  elseif holder then
    answers[i] = -1
  else
    answers[i] = 0
  end
end
return answers
