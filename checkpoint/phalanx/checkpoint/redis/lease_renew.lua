-- Renew a lease, if it is still the caller's, and with it the life of what the run works on.
--
-- A lease that names another step than the caller's is one of a server that lost the caller's last commit, as a replica
-- may that took over: workers would claim nothing of this step, for ever.
--
-- KEYS[1] lease   hash, lives with the thread; "at" in it is the claims key of the outermost graph's step
-- KEYS[2] claims  hash of that graph's running superstep
-- KEYS[3...] the thread's other keys, and those of the running supersteps
-- ARGV[1] the caller's token
-- ARGV[2] how long the lease is valid from now, ms
-- ARGV[3] life of the keys from now, ms; '0' for a thread that is kept
-- ARGV[4] '1' if the caller knows where the outermost graph stands; '0' if KEYS[2] says nothing
-- Returns 1, or 0 when another one has taken it since, or the last commit is lost.
local lease, claims = KEYS[1], KEYS[2]
local token, valid_ms, ttl_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
local at = redis.call('HGET', lease, 'at')
if ARGV[4] == '1' and at and at ~= claims then
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
