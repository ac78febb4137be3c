-- Store a checkpoint, or writes on one, for a saver; and tell what the saver should look after next.
--
-- A value that did not change since the parent is not sent again: its digest is named, and must still be there. That is
-- checked before anything is changed, so a checkpoint never refers to a blob that pruning took away meanwhile.
--
-- Life: what is written here gets the deadline that the thread's other keys have. Only touch.lua moves that deadline,
-- for all keys at once, and this script says when it is due.
--
-- KEYS[1] lease        hash, lives with the thread
-- KEYS[2] blobs        hash, lives with the thread
-- KEYS[3] checkpoints  hash, lives with the thread
-- KEYS[4] index        sorted set, lives with the thread
-- KEYS[5] about        hash, lives with the thread; "thread" is the thread's id, "life" its life in ms, "touched" says
--                      that all keys have the deadline, "step\0<place>" names writes without a checkpoint,
--                      "sweep\0<namespace>" how many checkpoints it has when it is pruned next
-- KEYS[6] writes on the checkpoint            hash, lives with the thread
-- KEYS[7] claims of the step that ends here   hash, removed here if there is a record
-- ARGV[1] place of the checkpoint; '' when there is nothing to store
-- ARGV[2] checkpoint record; '' when only writes are stored
-- ARGV[3] '=' and the thread's id; '' when the keys tell it
-- ARGV[4] life of the thread from its last write, ms; '0' for ever
-- ARGV[5], ARGV[6] bounds of the namespace in the index; '' when nobody prunes
-- ARGV[7] field of "about" for the namespace
-- ARGV[8] how many digests follow, of values that did not change
-- ARGV[9] how many writes
-- ARGV[10] fencing token of the caller; '' when no lease guards what is stored
-- ARGV[11...] those digests; then '1' to replace or '0' to keep, field, and write, in turn; then digest and bytes of
--             each new blob, in turn
-- Returns {-1} when the token is stale, or {0, digest...} with what is missing, and nothing was changed; or {1, number of checkpoints in the namespace,
-- number at which it is pruned or 0, whether touch.lua is due}.
local lease, blobs, checkpoints, index, about, writes, claims = unpack(KEYS)
local place, record, name, ttl_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lower, upper, sweep = ARGV[5], ARGV[6], ARGV[7]
local reused, count, token = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]

if token ~= '' and redis.call('HGET', lease, 'token') ~= token then
  return {-1}
end
local first_write = 11 + reused
local first_blob = first_write + 3 * count
local missing = {0}
for i = 11, first_write - 1 do
  if redis.call('HEXISTS', blobs, ARGV[i]) == 0 then
    missing[#missing + 1] = ARGV[i]
  end
end
if #missing > 1 then
  return missing
end

for i = first_blob, #ARGV, 2 do
  redis.call('HSETNX', blobs, ARGV[i], ARGV[i + 1])
end
if record ~= '' then
  redis.call('UNLINK', claims)
  redis.call('HSET', checkpoints, place, record)
  redis.call('ZADD', index, 0, place)
  redis.call('HDEL', about, 'step\0' .. place)
end
for i = first_write, first_blob - 1, 3 do
  redis.call(ARGV[i] == '1' and 'HSET' or 'HSETNX', writes, ARGV[i + 1], ARGV[i + 2])
end
if count > 0 and not redis.call('ZSCORE', index, place) then
  redis.call('HSET', about, 'step\0' .. place, '1')
end
if name ~= '' then
  redis.call('HSET', about, 'thread', string.sub(name, 2))
end

local due = 0
if ttl_ms > 0 then
  local left = redis.call('PTTL', about)
  if left < ttl_ms * 0.9 or redis.call('HEXISTS', about, 'touched') == 0 then
    due = 1
  end
  redis.call('HSET', about, 'life', ttl_ms) -- so that it exists: its deadline is the one that counts
  for _, key in ipairs({lease, blobs, checkpoints, index, about, writes}) do
    redis.call('PEXPIRE', key, left > 0 and left or ttl_ms)
  end
end
if lower == '' then
  return {1, 0, 0, due}
end
local sweep_at = tonumber(redis.call('HGET', about, sweep) or '0')
return {1, redis.call('ZLEXCOUNT', index, lower, upper), sweep_at, due}
