-- Renew a batch of n holds.
--
-- KEYS[i]      lock of the i-th
-- ARGV[i]      its holder id
-- ARGV[n + i]  its lease, ms. If there is only one, it is that of all
--
-- Returns  n: all are renewed
--          otherwise one integer for each lock
--          1: renewed
--          0: the lock is free
--          -1: another holder has the lock
--
-- Repeat   safe: the TTL never falls, and a hold that is gone stays gone
local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
-- Redis 7.0 and later, which have this number, also have PEXPIRE with GT
local has_gt = redis.REDIS_VERSION_NUM
local n = #keys
local lease, differ = args[n + 1], args[n + 2]
-- from the first hold that is gone on
local answers
for i = 1, n do
  local key, answer = keys[i], 1
  -- pcall: a key of another type must not stop the renewals of the others
  if pcall('hexists', key, args[i]) == 1 then
    if differ then
      lease = args[n + i]
    end
    -- GT does nothing to a key without TTL
    if not (has_gt and call('pexpire', key, lease, 'gt') == 1)
      and call('pttl', key) < tonumber(lease) then
      call('pexpire', key, lease)
    end
  else
    answer = call('exists', key) == 0 and 0 or -1
  end
  if answer ~= 1 and not answers then
    answers = {}
    for before = 1, i - 1 do
      answers[before] = 1
    end
  end
  if answers then
    answers[i] = answer
  end
end
return answers or n
