-- Renew a lease, if it is still the caller's.
--
-- KEYS[1] lease  hash, lives with the thread
-- ARGV[1] the caller's token
-- ARGV[2] how long it is valid from now, ms
-- Returns 1, or 0 when another one has taken it since.
local lease = KEYS[1]
local token, valid_ms = ARGV[1], tonumber(ARGV[2])

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
local clock = redis.call('TIME')
redis.call('HSET', lease, 'until', clock[1] * 1000 + math.floor(clock[2] / 1000) + valid_ms)
return 1
