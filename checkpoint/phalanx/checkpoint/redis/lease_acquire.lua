-- Take the right to drive a thread, if nobody holds it. The token grows with every owner and never shrinks.
--
-- KEYS[1] lease  hash (owner, token, until: ms by the server's clock), lives with the thread
-- ARGV[1] owner
-- ARGV[2] how long the lease is valid without renewal, ms
-- ARGV[3] life of the key, ms; '0' for a thread that is kept
-- Returns {token} when taken, or {0, owner, ms left} when another one holds it.
local lease = KEYS[1]
local owner, valid_ms, ttl_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder = redis.call('HGET', lease, 'owner')
local valid_until = tonumber(redis.call('HGET', lease, 'until') or '0')
if holder and holder ~= '' and holder ~= owner and valid_until > now then
  return {0, holder, valid_until - now}
end
local token = redis.call('HINCRBY', lease, 'token', 1)
redis.call('HSET', lease, 'owner', owner, 'until', now + valid_ms)
if ttl_ms > 0 then
  redis.call('PEXPIRE', lease, ttl_ms)
else
  redis.call('PERSIST', lease)
end
return {token}
