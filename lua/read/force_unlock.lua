-- Free a lock that is held for reading, whoever holds it, and wake a waiter.
--
-- KEYS[1]  lock
-- ARGV[1]  not-after: server time in ms past which this copy does nothing
-- ARGV[2]  unlock channel
-- ARGV[3]  publish command: publish or spublish
--
-- Returns  1: freed
--          0: no reader held it
--          {now}: this copy came too late; the server's time in ms
--
-- Repeat   unsafe: a second copy may free the next holder's lock
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > tonumber(ARGV[1]) then
  return {now}
end
if redis.call('hget', KEYS[1], 'mode') ~= 'read' then
  return 0
end
local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local fields = redis.call('hgetall', KEYS[1])
-- no more keys: the server must not be busy for long by what another program wrote
local budget = 10000
for i = 1, #fields, 2 do
  for n = 1, math.min(tonumber(fields[i + 1]) or 0, budget) do
    budget = budget - 1
    -- pcall: in a slot that moves it may be on another server, and ends with its lease
    redis.pcall('del', tag .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
  end
end
redis.call('del', KEYS[1])
redis.call(ARGV[3], ARGV[2], '0')
return 1
