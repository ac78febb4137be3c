-- Before tasks run again: move the errors and questions of earlier runs aside, so that new outcomes can be recorded.
--
-- Their claims go too, or no worker could claim them again, and what is known of attempts that were to be followed by
-- another. The claim of a task without an outcome stays: a worker may still be at it, and the new run waits for that
-- one instead of running it twice.
--
-- KEYS[1] lease   hash, lives with the thread
-- KEYS[2] writes  hash, lives with the thread
-- KEYS[3] claims  hash, removed by the step's commit
-- ARGV[1] fencing token of the caller
-- ARGV[2...] task id, the field of its retries, the field that keeps what is moved aside ('' for nothing), and that, in
--            turn
-- Returns 1, or 0 when the token is stale and nothing was changed.
local lease, writes, claims = KEYS[1], KEYS[2], KEYS[3]
local token = ARGV[1]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
for i = 2, #ARGV, 4 do
  redis.call('HDEL', writes, ARGV[i])
  redis.call('HDEL', claims, ARGV[i], ARGV[i + 1])
  if ARGV[i + 2] ~= '' then
    redis.call('HSET', writes, ARGV[i + 2], ARGV[i + 3])
  end
end
return 1
