-- Forget who runs tasks that nobody waits for any more, so that the next run can have them claimed at once.
--
-- KEYS[1] lease   hash, lives with the thread
-- KEYS[2] claims  hash, removed by the step's commit
-- ARGV[1] fencing token of the caller
-- ARGV[2...] task ids
-- Returns how many were claimed; 0 when the token is stale and nothing was changed.
local lease, claims = KEYS[1], KEYS[2]
local token = ARGV[1]

local voided = 0
if redis.call('HGET', lease, 'token') ~= token then
  return voided
end
for i = 2, #ARGV do
  voided = voided + redis.call('HDEL', claims, ARGV[i])
end
return voided
