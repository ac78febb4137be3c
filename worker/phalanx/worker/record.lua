-- Record the outcomes of tasks. The first outcome of a task counts; a later one changes nothing.
--
-- An outcome is accepted only while its task is claimed: once the step is committed its claims are gone, and what still
-- comes is of no use to anyone. The attempt does not matter here: whichever finishes first has done the work.
--
-- The outcome of an attempt that is to be followed by another is kept among the claims, where it bars nobody from
-- claiming that one. If a later attempt is claimed, nobody wants to know it any more.
--
-- KEYS[1] claims  hash, removed by the step's commit
-- KEYS[2] writes  hash (task id -> outcome), lives with the thread
-- KEYS[3] blobs   hash (digest -> bytes), lives with the thread
-- ARGV[1] life of the keys in ms; '0' for a thread that is kept
-- ARGV[2] how many outcomes follow
-- ARGV[3] how many of attempts to be followed by another
-- ARGV[4...] task id and outcome, in turn; then task id, field, attempt and outcome, in turn, of those; then digest and
--            bytes of each new blob, in turn
-- Returns how many outcomes were recorded.
local claims, writes, blobs = KEYS[1], KEYS[2], KEYS[3]
local ttl_ms, count, retries = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local recorded = 0
local first_retry = 4 + 2 * count
local first_blob = first_retry + 4 * retries
for i = 4, first_retry - 1, 2 do
  if redis.call('HEXISTS', claims, ARGV[i]) == 1 then
    recorded = recorded + redis.call('HSETNX', writes, ARGV[i], ARGV[i + 1])
  end
end
for i = first_retry, first_blob - 1, 4 do
  local claim = redis.call('HGET', claims, ARGV[i])
  local latest = claim and tonumber(string.match(claim, '^%d+')) <= tonumber(ARGV[i + 2])
  if latest and redis.call('HEXISTS', writes, ARGV[i]) == 0 then
    redis.call('HSET', claims, ARGV[i + 1], ARGV[i + 3])
  end
end
if recorded == 0 then
  return 0
end
for i = first_blob, #ARGV, 2 do
  redis.call('HSETNX', blobs, ARGV[i], ARGV[i + 1])
end
if ttl_ms > 0 then
  redis.call('PEXPIRE', writes, ttl_ms)
  redis.call('PEXPIRE', blobs, ttl_ms)
end
return recorded
