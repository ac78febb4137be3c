-- Delete what is left of the last step of a graph inside whose checkpoints are not kept.
--
-- KEYS[1] lease  hash, lives with the thread
-- KEYS[2] checkpoints  hash, lives with the thread
-- KEYS[3] index        sorted set, lives with the thread
-- KEYS[4] about        hash, lives with the thread; see commit
-- KEYS[5] claims of that step    hash, removed here
-- KEYS[6] outcomes of that step  hash, removed here
-- ARGV[1] fencing token of the caller
-- ARGV[2] the field of the lease that names the graph's step
-- ARGV[3] the step's place
-- Returns 1, or 0 when the token is stale and nothing was changed.
local lease, checkpoints, index, about, claims, writes = unpack(KEYS)
local token, at_field, place = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
redis.call('HDEL', lease, at_field)
redis.call('HDEL', checkpoints, place)
redis.call('ZREM', index, place)
redis.call('HDEL', about, 'step\0' .. place)
redis.call('UNLINK', claims, writes)
return 1
