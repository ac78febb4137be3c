-- Delete the keys of a thread that is not kept, if the lease is still the caller's.
--
-- KEYS[1] lease  hash, removed here
-- KEYS[2...] the thread's other keys, removed here
-- ARGV[1] fencing token of the caller
-- Returns 1, or 0 when the token is stale and nothing was changed.
local lease, token = KEYS[1], ARGV[1]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
for _, key in ipairs(KEYS) do
  redis.call('UNLINK', key)
end
return 1
