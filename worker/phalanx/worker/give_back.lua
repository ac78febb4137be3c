-- Give claims back: tasks that this worker process has left before their end may be claimed again.
--
-- KEYS[1] claims  hash (task id -> "attempt|worker|since ms|call"), removed by the step's commit
-- ARGV[1] worker process
-- ARGV[2...] task ids
-- Returns how many were its own.
local claims, worker = KEYS[1], ARGV[1]

local given = 0
for i = 2, #ARGV do
  local claim = redis.call('HGET', claims, ARGV[i])
  if claim and string.match(claim, '^%d+|([^|]*)|') == worker then
    given = given + redis.call('HDEL', claims, ARGV[i])
  end
end
return given
