-- Acquire and release several locks in one call. Each part acts as if it had come
-- by itself.
--
-- KEYS[i]     lock of the i-th
-- ARGV[1]     publish command: publish or spublish
-- ARGV[4i-2]  of the i-th: acquire or release
-- ARGV[4i-1]  holder id
-- ARGV[4i]    lease, ms; of a release the hold count after it
-- ARGV[4i+1]  not-after: server time in ms past which it does nothing; of a
--             release the unlock channel
--
-- Returns  for each what acquire.lua or release.lua returns, or its error as
--          text
--
-- Repeat   safe: acquire.lua and release.lua are
local now
local function acquire(key, id, lease, not_after)
  local ttl = redis.call('pttl', key)
  if ttl ~= -2 and redis.call('hexists', key, id) == 0 then
    return ttl
  end
  if not now then
    local time = redis.call('time')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  if now > tonumber(not_after) then
    return {now}
  end
  if ttl == -2 then
    redis.call('hset', key, id, '1')
  end
  if ttl < tonumber(lease) then
    redis.call('pexpire', key, lease)
  end
  return false
end
local function release(key, id, count, channel)
  if count == '0' then
    if redis.call('hdel', key, id) == 0 then
      return 0
    end
    return 1 + redis.call(ARGV[1], channel, '0')
  end
  if redis.call('hexists', key, id) == 0 then
    return 0
  end
  redis.call('hset', key, id, count)
  return 1
end
local answers = {}
for i, key in ipairs(KEYS) do
  local at = 4 * i - 2
  local deed = ARGV[at] == 'acquire' and acquire or release
  local done, answer = pcall(deed, key, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  if done then
    answers[i] = answer
  else
    answers[i] = type(answer) == 'table' and answer.err or tostring(answer)
  end
end
return answers
