-- Delete what is left of a graph inside that has come to its end and whose checkpoints are not kept.
--
-- KEYS[1] lease  hash, lives with the thread
-- KEYS[2...] claims and outcomes of the graph's last step, removed here
-- ARGV[1] fencing token of the caller
-- ARGV[2] the field of the lease that names the graph's step
-- Returns 1, or 0 when the token is stale and nothing was changed.
local lease, token, at_field = KEYS[1], ARGV[1], ARGV[2]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
redis.call('HDEL', lease, at_field)
for i = 2, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
