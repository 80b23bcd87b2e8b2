-- Renew a batch of n read holds.
--
-- KEYS[i]      lock of the i-th
-- KEYS[n + i]  its timeout key. In a slot that moves, for n = 1, it may come
--              before ARGV[1] and not among the keys
-- ARGV[i]      its holder id
-- ARGV[n + i]  its lease, ms. If there is only one, it is that of all
--
-- Returns  n: all are renewed
--          otherwise for each hold
--          1: renewed
--          0: the lock is free
--          -1: another holder has the lock
--          text: its error; it is unchanged, or renewed in part
--
-- Repeat   safe: no TTL ever falls, and a hold that is gone stays gone. While
--          its field is there no writer has held the lock since: its timeout key
--          may have expired, and is set again
if not KEYS[2] then
  KEYS[2] = table.remove(ARGV, 1)
end
local function renew(lock, timeout, holder, lease)
  -- pcall: a key of another type is not this holder's
  local held = redis.pcall('hexists', lock, holder)
  if held ~= 1 then
    if type(held) == 'table' and not held.err:find('^WRONGTYPE') then
      -- such as a right that is missing: whose lock it is stays unknown
      error(held)
    end
    return redis.call('exists', lock) == 0 and 0 or -1
  end
  local left = redis.call('pttl', timeout)
  if left == -2 then
    -- refused in a slot that moves: a new key would then be on both servers
    redis.call('exists', lock, timeout)
  end
  if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  if left == -2 then
    redis.call('set', timeout, '1', 'px', lease)
  elseif left < tonumber(lease) then
    -- not by SET, which is refused when the memory is full
    redis.call('pexpire', timeout, lease)
  end
  return 1
end
local n = #KEYS / 2
local answers, all = {}, true
for i = 1, n do
  -- pcall: the error of one hold must not stop the renewals of the others
  local done, answer = pcall(renew, KEYS[i], KEYS[n + i], ARGV[i], ARGV[n + i] or ARGV[n + 1])
  if done then
    answers[i] = answer
  else
    answers[i] = type(answer) == 'table' and answer.err or tostring(answer)
  end
  all = all and answers[i] == 1
end
return all and n or answers
