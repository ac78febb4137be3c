-- Before unfinished tasks run again: move the errors of earlier runs aside, so that new outcomes can be recorded.
--
-- KEYS[1] lease   hash, lives with the thread
-- KEYS[2] writes  hash, lives with the thread
-- ARGV[1] fencing token of the caller
-- ARGV[2...] task id, the field that keeps its error, and the error, in turn
-- Returns 1, or 0 when the token is stale and nothing was changed.
local lease, writes = KEYS[1], KEYS[2]

if redis.call('HGET', lease, 'token') ~= ARGV[1] then
  return 0
end
for i = 2, #ARGV, 3 do
  redis.call('HDEL', writes, ARGV[i])
  redis.call('HSET', writes, ARGV[i + 1], ARGV[i + 2])
end
return 1
