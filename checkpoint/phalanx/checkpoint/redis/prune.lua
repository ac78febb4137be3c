-- Remove checkpoints of a thread with their writes, and the blobs that nothing refers to any more, all or nothing.
--
-- The caller chose by what it read before. If the thread has a checkpoint now that the caller does not know, or another
-- record where it wants to change one, the choice may be wrong (a new child may need an ancestor that is to go), so
-- nothing is changed and the caller chooses again.
--
-- Why no blob goes that is needed. What refers to a blob is a checkpoint's record, the stored list of packets, or a
-- write; this script sees all of those, since it knows all places, and scripts run one at a time. It does not decode
-- them: it takes for a reference whatever looks like one, a text of 40 hexadecimal digits as msgpack stores it. Data
-- that only looks so keeps a blob for longer, and never loses one. Whoever stores something that refers to a blob does
-- so in one script, which either brings the blob's bytes along (then it is there afterwards, whether this script ran
-- before or not), or has checked in the same script that it is there (then this script sees the reference).
-- Two things refer to blobs unseen: messages of a running superstep to workers, and the state in its coordinator's
-- memory. So blobs stay while a run holds the thread's lease, and while a step has claims; a later call takes them.
--
-- KEYS[1] lease        hash, lives with the thread; see commit.lua for its fields "at…"
-- KEYS[2] blobs        hash, lives with the thread
-- KEYS[3] checkpoints  hash, lives with the thread
-- KEYS[4] index        sorted set, lives with the thread
-- KEYS[5] about        hash, lives with the thread; see store.lua
-- KEYS[6...] writes and claims of each place, in turn; hashes, removed here for places that go
-- ARGV[1] how many places the caller knows
-- ARGV[2] how many of them stay
-- ARGV[3] how many records change
-- ARGV[4...] the places, those that stay first; then place, SHA-1 of the present record, and new record, in turn; then
--            field and value of "about", in turn
-- Returns the number of blobs removed; -1 when the caller must choose again; -2 when a run holds the thread of which
-- nobody knows where it stands. When negative, nothing was changed.
local lease, blobs, checkpoints, index, about = unpack(KEYS, 1, 5)
local known, staying, changing = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local first_change = 4 + known
local first_field = first_change + 3 * changing

-- Note the digests in data that follow a certain text.
local function note(data, before, found)
  local start, last = string.find(data, before, 1, true)
  while start do
    local digest = string.match(data, '^[0-9a-f]+', last + 1)
    if digest and #digest >= 40 then
      found[string.sub(digest, 1, 40)] = true
    end
    start, last = string.find(data, before, last + 1, true)
  end
end

local clock = redis.call('TIME')
local owner = redis.call('HGET', lease, 'owner')
local valid_until = tonumber(redis.call('HGET', lease, 'until') or '0')
local held = owner and owner ~= '' and valid_until > clock[1] * 1000 + math.floor(clock[2] / 1000)
local working, located = {}, false -- the claims keys of the steps that the run and graphs inside of it are at
local fields = redis.call('HGETALL', lease)
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 'at' then
    working[fields[i + 1]], located = true, true
  end
end

-- Is everything as the caller thinks?
local places, indexed = {}, 0
for i = 1, known do
  local place = ARGV[3 + i]
  places[place] = true
  if redis.call('ZSCORE', index, place) then
    indexed = indexed + 1
  end
end
if indexed ~= redis.call('ZCARD', index) then
  return -1
end
for _, field in ipairs(redis.call('HKEYS', about)) do
  if string.sub(field, 1, 5) == 'step\0' and not places[string.sub(field, 6)] then
    return -1
  end
end
for i = first_change, first_field - 1, 3 do
  local record = redis.call('HGET', checkpoints, ARGV[i])
  if not record or redis.sha1hex(record) ~= ARGV[i + 1] then
    return -1
  end
end
if held and staying < known then
  if not located then
    return -2
  end
  for i = staying + 1, known do
    if working[KEYS[5 + 2 * i]] then
      return -1
    end
  end
end

for i = staying + 1, known do
  local place = ARGV[3 + i]
  redis.call('HDEL', checkpoints, place)
  redis.call('ZREM', index, place)
  redis.call('HDEL', about, 'step\0' .. place)
  redis.call('UNLINK', KEYS[4 + 2 * i], KEYS[5 + 2 * i])
end
for i = first_change, first_field - 1, 3 do
  redis.call('HSET', checkpoints, ARGV[i], ARGV[i + 2])
end
for i = first_field, #ARGV, 2 do
  redis.call('HSET', about, ARGV[i], ARGV[i + 1])
end

-- The blobs: what is referred to stays.
if held then
  return 0
end
local live, lists = {}, {}
local text_of_40 = '\217\040' -- what msgpack puts before it
for _, record in ipairs(redis.call('HVALS', checkpoints)) do
  note(record, text_of_40, live)
  note(record, '__pregel_tasks' .. text_of_40, lists)
end
for i = 1, staying do
  if redis.call('EXISTS', KEYS[5 + 2 * i]) == 1 then
    return 0
  end
  for _, write in ipairs(redis.call('HVALS', KEYS[4 + 2 * i])) do
    note(write, text_of_40, live)
  end
end
for list in pairs(lists) do
  note(redis.call('HGET', blobs, list) or '', text_of_40, live)
end
local removed = 0
for _, blob in ipairs(redis.call('HKEYS', blobs)) do
  if not live[blob] then
    removed = removed + redis.call('HDEL', blobs, blob)
  end
end
return removed
