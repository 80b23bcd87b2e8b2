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
local call, pcall = redis.call, redis.pcall
-- Redis 7.0 and later, which have this number, also have PEXPIRE with GT
local has_gt = redis.REDIS_VERSION_NUM
local n = #KEYS
local answers, renewed = {}, 0
for i, key in ipairs(KEYS) do
  local lease = ARGV[n + i] or ARGV[n + 1]
  -- pcall: a key of another type must not stop the renewals of the others
  local held = pcall('hexists', key, ARGV[i])
  if held == 1 then
    -- GT does nothing to a key without TTL
    if not (has_gt and call('pexpire', key, lease, 'gt') == 1)
      and call('pttl', key) < tonumber(lease) then
      call('pexpire', key, lease)
    end
    answers[i] = 1
    renewed = renewed + 1
  elseif type(held) == 'table' and not held.err:find('^WRONGTYPE') then
    -- such as a right that is missing: whose lock it is stays unknown
    return held
  elseif call('exists', key) == 0 then
    answers[i] = 0
  else
    answers[i] = -1
  end
end
return renewed == n and n or answers
