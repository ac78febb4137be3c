-- Renew a lease, if it is still the caller's, and with it the life of what the run works on.
--
-- KEYS[1] lease  hash, lives with the thread
-- KEYS[2...] the thread's other keys, and those of the running superstep
-- ARGV[1] the caller's token
-- ARGV[2] how long the lease is valid from now, ms
-- ARGV[3] life of the keys from now, ms; '0' for a thread that is kept
-- Returns 1, or 0 when another one has taken it since.
local lease = KEYS[1]
local token, valid_ms, ttl_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
local clock = redis.call('TIME')
redis.call('HSET', lease, 'until', clock[1] * 1000 + math.floor(clock[2] / 1000) + valid_ms)
if ttl_ms > 0 then -- a superstep may take longer than the keys would live
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ttl_ms)
  end
end
return 1
