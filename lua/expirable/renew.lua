-- Renew the leases of n guards' permits.
--
-- KEYS[i]      permits that are out: see acquire
-- ARGV[i]      ids of permits of KEYS[i], of 16 bytes each, without anything between
-- ARGV[n + i]  their lease, ms. If there is only one, it is that of all
--
-- Returns  n: all are renewed
--          otherwise one integer for each key
--          1: renewed
--          0: one of the permits at least is not out any more, or its lease has ended;
--          none of these is renewed
--
-- Repeat   safe: no lease gets shorter, and a permit that is gone stays gone
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- first: after a write that needs no memory, a server without any refuses none. No
-- permit has an empty id
redis.pcall('zrem', KEYS[1], '')
local n = #KEYS
local answers, renewed = {}, 0
for i, key in ipairs(KEYS) do
  local ids, till = ARGV[i], now + (ARGV[n + i] or ARGV[n + 1])
  local later = {}
  answers[i] = 1
  for at = 1, #ids, 16 do
    local id = string.sub(ids, at, at + 15)
    -- pcall: a key of another type must not stop the renewals of the others
    local ends = redis.pcall('zscore', key, id)
    if type(ends) == 'table' and not ends.err:find('^WRONGTYPE') then
      -- such as a right that is missing: what is out stays unknown
      return ends
    end
    if type(ends) ~= 'string' or tonumber(ends) <= now then
      answers[i] = 0
      break
    end
    later[#later + 1] = string.format('%.0f', math.max(till, tonumber(ends)))
    later[#later + 1] = id
  end
  if answers[i] == 1 then
    redis.call('zadd', key, unpack(later))
    renewed = renewed + 1
  end
end
return renewed == n and n or answers
