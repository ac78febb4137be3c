-- Claim tasks for a worker process: the right to run one attempt of each.
--
-- A claim is refused when the sender's token is stale or the run has ended, when the step is over, when the task already
-- has an outcome, and when this attempt or a later one is claimed. So a message that arrives twice runs once.
--
-- A call that is repeated, since its reply got lost, gets the same reply: a claim knows the call that made it.
--
-- KEYS[1] lease   hash, lives with the thread; a field "at…" in it is the claims key of the step of the batch's graph that
--                 may be worked on, once known
-- KEYS[2] claims  hash (task id -> "attempt|worker|since ms|call"), removed by the step's commit, or a day after the run's
--                 end
-- KEYS[3] writes  hash (task id -> outcome), lives with the thread
-- ARGV[1] fencing token of the batch's sender
-- ARGV[2] worker process
-- ARGV[3] life of the claims in ms; '0' for a thread that is kept
-- ARGV[4] the call: a text that no other call has
-- ARGV[5] that field of the lease
-- ARGV[6...] task id and attempt, in turn
-- Returns the ids that were claimed.
local lease, claims, writes = KEYS[1], KEYS[2], KEYS[3]
local token, worker, ttl_ms, call, at_field = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local claimed = {}
local owner = redis.call('HGET', lease, 'owner')
local at = redis.call('HGET', lease, at_field)
if redis.call('HGET', lease, 'token') ~= token or not owner or owner == '' then
  return claimed
end
if at and at ~= claims then
  return claimed
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for i = 6, #ARGV, 2 do
  local task, attempt = ARGV[i], tonumber(ARGV[i + 1])
  local earlier = redis.call('HGET', claims, task)
  local free = not earlier or tonumber(string.match(earlier, '^%d+')) < attempt or string.match(earlier, '[^|]*$') == call
  if free and redis.call('HEXISTS', writes, task) == 0 then
    redis.call('HSET', claims, task, string.format('%.0f|%s|%.0f|%s', attempt, worker, now, call))
    claimed[#claimed + 1] = task
  end
end
if ttl_ms > 0 then
  redis.call('PEXPIRE', claims, ttl_ms)
else
  redis.call('PERSIST', claims)  -- an earlier run may have left it with an end
end
return claimed
