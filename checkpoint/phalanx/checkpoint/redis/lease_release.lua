-- Give a lease back, if it is still the caller's.
--
-- KEYS[1] lease   hash, lives with the thread; its fields about graphs inside go
-- KEYS[2...] claims  hashes of the steps in which the run, and those of graphs inside, end, if they end within one
-- ARGV[1] the caller's token
-- ARGV[2] how long those claims stay, s
-- Returns 1, or 0 when another one has taken it since.
local lease = KEYS[1]
local token, claims_life_s = ARGV[1], ARGV[2]

if redis.call('HGET', lease, 'token') ~= token then
  return 0
end
redis.call('HSET', lease, 'owner', '', 'until', 0)
for _, field in ipairs(redis.call('HKEYS', lease)) do
  if string.sub(field, 1, 3) == 'at\0' then
    redis.call('HDEL', lease, field)
  end
end
for i = 2, #KEYS do
  redis.call('EXPIRE', KEYS[i], claims_life_s)
end
return 1
