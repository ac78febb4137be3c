-- Make a superstep real: store its new blobs and its checkpoint, and retire the claims of the step, all or nothing.
--
-- KEYS[1] lease        hash, lives with the thread; for each graph that runs in the thread, a field "at…" in it is the claims
--                      key of the step that may be worked on
-- KEYS[2] blobs        hash, lives with the thread
-- KEYS[3] checkpoints  hash, lives with the thread
-- KEYS[4] index        sorted set, lives with the thread
-- KEYS[5] claims of the step that ends here    hash, removed here
-- KEYS[6] outcomes of the step that ends here  hash, removed here if the graph's checkpoints are not kept
-- KEYS[7] claims of the step that begins here  hash, only named here
-- KEYS[8] about        hash, lives with the thread; "step\0<place>" names the keys of a step that no record names
-- ARGV[1] fencing token of the caller; '' when no lease guards the thread
-- ARGV[2] life of the thread's keys in ms from now, for a thread of which only the latest state is kept; '0' keeps all
-- ARGV[3] place of the checkpoint
-- ARGV[4] checkpoint record; '' when checkpoints are kept elsewhere, or nowhere
-- ARGV[5] place of the checkpoint before
-- ARGV[6] that field of the lease
-- ARGV[7] what to note about the step that begins here, and then the outcomes of the one that ends are removed; '' to keep
--         them, and note nothing
-- ARGV[8...] digest and bytes of each new blob, in turn
-- Returns 1, or 0 when nothing was changed: the token is stale, or the server lost the commit before this one.
local lease, blobs, checkpoints, index, claims, writes, next_claims, about = unpack(KEYS)
local token, ttl_ms, place, record, before = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local at_field, note = ARGV[6], ARGV[7]

if token ~= '' and redis.call('HGET', lease, 'token') ~= token then
  return 0
end
local at = redis.call('HGET', lease, at_field)
if token ~= '' and at and at ~= claims and at ~= next_claims then -- at the next one when a reply got lost
  return 0
end
for i = 8, #ARGV, 2 do
  redis.call('HSETNX', blobs, ARGV[i], ARGV[i + 1])
end
redis.call('UNLINK', claims)
if token ~= '' then
  redis.call('HSET', lease, at_field, next_claims)
end
if record ~= '' then
  redis.call('HSET', checkpoints, place, record)
  redis.call('ZADD', index, 0, place)
end
if ttl_ms > 0 or note ~= '' then
  redis.call('UNLINK', writes)
end
if note ~= '' then -- the keys of this step have no other trace, should nobody come to its end
  redis.call('HDEL', about, 'step\0' .. before)
  redis.call('HSET', about, 'step\0' .. place, note)
end
if ttl_ms > 0 then
  redis.call('HDEL', checkpoints, before)
  redis.call('ZREM', index, before)
  for _, key in ipairs({lease, blobs, checkpoints, index}) do
    redis.call('PEXPIRE', key, ttl_ms)
  end
end
return 1
