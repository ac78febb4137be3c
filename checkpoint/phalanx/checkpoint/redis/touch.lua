-- Move the deadline of all keys of a thread at once, so that they expire together.
--
-- KEYS[1] index  sorted set, lives with the thread
-- KEYS[2] about  hash, lives with the thread
-- KEYS[3...] all other keys of the thread
-- ARGV[1] life from now, ms
-- ARGV[2] how many checkpoints the caller knows
-- ARGV[3] how many fields of "about"
-- Returns 1, or 0 when there are others meanwhile, whose keys the caller does not know, and nothing was changed.
local index, about = KEYS[1], KEYS[2]
local ttl_ms, checkpoints, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('ZCARD', index) ~= checkpoints or redis.call('HLEN', about) ~= fields then
  return 0
end
redis.call('HSET', about, 'touched', '1')
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ttl_ms)
end
return 1
