-- Give a lease back, if it is still the caller's.
--
-- KEYS[1] lease   hash, lives with the thread
-- KEYS[2] claims  hash of the step in which the run ends, if it ends within one
-- ARGV[1] the caller's token
-- ARGV[2] how long those claims stay, s
-- Returns 1, or 0 when another one has taken it since.
local lease, claims = KEYS[1], KEYS[2]
local token, claims_life_s = ARGV[1], ARGV[2]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
redis.call('HSET', lease, 'owner', '', 'until', 0)
redis.call('EXPIRE', claims, claims_life_s)
return 1
