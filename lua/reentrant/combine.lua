-- Acquire and release several locks in one call. Each part acts as if it had come
-- by itself: first those that release, then those that lower a hold count, then
-- those that acquire.
--
-- KEYS[i]      lock of the i-th of n parts
-- ARGV[1]      publish command: publish or spublish
-- ARGV[2]      r: the parts up to this one release
-- ARGV[3]      s: those behind them up to this one lower a hold count
-- ARGV[4]      not-after: server time in ms past which no part acquires. The
--              earliest of those that the parts would have by themselves
-- ARGV[4+i]    holder id
-- ARGV[4+n+i]  of a release the unlock channel; the hold count after it, if that is
--              not 0; of an acquire the lease, ms. If there is only one lease, it is
--              that of all
--
-- Returns  for each what acquire.lua or release.lua returns, or its error as
--          text
--
-- Repeat   safe: acquire.lua and release.lua are
local call, keys, args = redis.call, KEYS, ARGV
local n, released, lowered = #keys, tonumber(args[2]), tonumber(args[3])
local not_after = tonumber(args[4])
local lease, differ = args[5 + n + lowered], args[6 + n + lowered]
local least = lease and tonumber(lease)
local answers, at, now = {}, 0, nil
-- goes on behind the part that it ended with
local function go_on()
  while at < released do
    at = at + 1
    if call('hdel', keys[at], args[4 + at]) == 0 then
      answers[at] = 0
    else
      answers[at] = 1 + call(args[1], args[4 + n + at], '0')
    end
  end
  while at < lowered do
    at = at + 1
    local key, id = keys[at], args[4 + at]
    answers[at] = call('hexists', key, id)
    if answers[at] == 1 then
      call('hset', key, id, args[4 + n + at])
    end
  end
  while at < n do
    at = at + 1
    local key, id = keys[at], args[4 + at]
    local ttl = call('pttl', key)
    if ttl ~= -2 and call('hexists', key, id) == 0 then
      answers[at] = ttl
    else
      if not now then
        local time = call('time')
        now = time[1] * 1000 + math.floor(time[2] / 1000)
      end
      if now > not_after then
        answers[at] = {now}
      else
        if differ then
          lease = args[4 + n + at]
          least = tonumber(lease)
        end
        if ttl == -2 then
          call('hset', key, id, '1')
        end
        if ttl < least then
          -- pcall: without the right to PEXPIRE no lock without TTL may stay
          local set = redis.pcall('pexpire', key, lease)
          if set ~= 1 then
            if ttl == -2 then
              call('hdel', key, id)
            end
            error(set)
          end
        end
        answers[at] = false
      end
    end
  end
end
-- one pcall for all parts, unless one fails
repeat
  local done, why = pcall(go_on)
  if not done then
    answers[at] = type(why) == 'table' and why.err or tostring(why)
  end
until done
return answers
