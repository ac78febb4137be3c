-- Take the right to drive a thread, if nobody holds it. The token grows with every owner and never shrinks: it is at
-- least the time, so that this also holds when the lease was deleted in between, or the server lost its last writes.
--
-- KEYS[1] lease  hash (owner, token, until: ms by the server's clock, at…: see commit), lives with the thread
-- KEYS[2] about  hash, lives with the thread; see commit
-- ARGV[1] owner
-- ARGV[2] how long the lease is valid without renewal, ms
-- ARGV[3] life of the key, ms; '0' for a thread that is kept
-- ARGV[4] what "about" says of steps that are of use only to the owner they belong to
-- Returns {token, place...} when taken, with the places of such steps that an owner before has left behind; or {0, owner, ms left} when another one holds it.
local lease, about = KEYS[1], KEYS[2]
local owner, valid_ms, ttl_ms, passing = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder = redis.call('HGET', lease, 'owner')
local valid_until = tonumber(redis.call('HGET', lease, 'until') or '0')
if holder and holder ~= '' and holder ~= owner and valid_until > now then
  return {0, holder, valid_until - now}
end
local before = tonumber(redis.call('HGET', lease, 'token') or '0')
local token = math.max(before + 1, clock[1] * 1000000 + clock[2])
redis.call('HSET', lease, 'owner', owner, 'until', now + valid_ms, 'token', string.format('%.0f', token))
for _, field in ipairs(redis.call('HKEYS', lease)) do
  if string.sub(field, 1, 2) == 'at' then
    redis.call('HDEL', lease, field)
  end
end
if ttl_ms > 0 then
  redis.call('PEXPIRE', lease, ttl_ms)
else
  redis.call('PERSIST', lease)
end
local reply = {token}
local noted = ttl_ms > 0 and {} or redis.call('HGETALL', about)
for i = 1, #noted, 2 do
  if string.sub(noted[i], 1, 5) == 'step\0' and noted[i + 1] == passing then
    reply[#reply + 1] = string.sub(noted[i], 6)
  end
end
return reply
