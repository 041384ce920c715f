-- Makes new tasks that wait in pending.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  the task's hash, for each task
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2]    number of the sender's call
-- ARGV[3..]  for each task: id, msg, lock ("" = not unique), TTL of the lock in seconds
-- RETURN     for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
--
-- When Redis is full the first HSET is refused, and nothing has been written.
-- include: codes clock mark answers create

redis.call("LLEN", KEYS[1])
local n = #KEYS - 3
local codes = answered(KEYS[3], ARGV[2], n)
if codes then
  return codes
end
local made, ids = {}, {}
codes = {}
local free = redis.call("EXISTS", unpack(KEYS, 4)) == 0
for i = 1, n do
  local a = 4 * i - 1
  codes[i] = creatable(KEYS[i + 3], ARGV[a], ARGV[a + 2], ARGV[1], made, free)
end
local _, _, now_ns = clock()
for i = 1, n do
  if codes[i] == OK then
    local a = 4 * i - 1
    create(KEYS[i + 3], ARGV[a], ARGV[a + 1], "pending", ARGV[a + 2], ARGV[a + 3], "pending_since", now_ns)
    ids[#ids + 1] = ARGV[a]
  end
end
if #ids > 0 then
  redis.call("LPUSH", KEYS[1], unpack(ids))
  mark(KEYS[2])
  remember(KEYS[3], ARGV[2], codes)
end
return codes
