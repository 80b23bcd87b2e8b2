-- Acquire and release several locks in one call. Each part acts as if it had come
-- by itself.
--
-- KEYS[i]     lock of the i-th
-- ARGV[1]     publish command: publish or spublish
-- ARGV[3i-1]  holder id
-- ARGV[3i]    of an acquire the lease, ms; of a release the hold count after it
-- ARGV[3i+1]  of an acquire not-after: server time in ms past which it does
--             nothing; of a release the unlock channel, which is no number
--
-- Returns  for each what acquire.lua or release.lua returns, or its error as
--          text
--
-- Repeat   safe: acquire.lua and release.lua are
local call = redis.call
local now
local function acquire(key, id, lease, not_after)
  local ttl = call('pttl', key)
  if ttl ~= -2 and call('hexists', key, id) == 0 then
    return ttl
  end
  if not now then
    local time = call('time')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  if now > not_after then
    return {now}
  end
  if ttl == -2 then
    call('hset', key, id, '1')
  end
  if ttl < tonumber(lease) then
    call('pexpire', key, lease)
  end
  return false
end
local function release(key, id, count, channel)
  if count == '0' then
    if call('hdel', key, id) == 0 then
      return 0
    end
    return 1 + call(ARGV[1], channel, '0')
  end
  if call('hexists', key, id) == 0 then
    return 0
  end
  call('hset', key, id, count)
  return 1
end
local answers = {}
for i, key in ipairs(KEYS) do
  local at = 3 * i - 1
  local last = ARGV[at + 2]
  local not_after = tonumber(last)
  local deed = not_after and acquire or release
  local done, answer = pcall(deed, key, ARGV[at], ARGV[at + 1], not_after or last)
  if done then
    answers[i] = answer
  else
    answers[i] = type(answer) == 'table' and answer.err or tostring(answer)
  end
end
return answers
