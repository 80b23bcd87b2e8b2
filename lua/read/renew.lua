-- Renew a batch of read holds.
--
-- KEYS[i]     lock
-- ARGV[2i-1]  holder id of the hold on KEYS[i]
-- ARGV[2i]    lease, ms
--
-- Returns  one integer for each lock
--          1: renewed
--          0: the lock is free
--          -1: the lock is others'
--
-- Repeat   safe: no TTL ever falls, and a hold that is gone stays gone. While
--          its field is there nobody has written since: its timeout key may
--          have run out, and is set anew
local answers = {}
for i, key in ipairs(KEYS) do
  local holder, lease = ARGV[2 * i - 1], ARGV[2 * i]
  -- pcall: a key of another type must not spoil its neighbours' renewals
  local held = redis.pcall('hexists', key, holder)
  if held == 1 then
    local tag = key:find('{', 1, true) and key or '{' .. key .. '}'
    local timeout = tag .. ':' .. holder .. ':rwlock_timeout:1'
    if redis.call('pttl', timeout) < tonumber(lease) then
      redis.call('set', timeout, '1', 'px', lease)
    end
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
