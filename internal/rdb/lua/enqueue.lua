-- Makes new tasks that wait in pending.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3..]  the task's hash, for each task
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2..]  for each task: id, msg, nonce, lock ("" = not unique), TTL of the lock in seconds
-- RETURN     for each task: OK, ALREADY, CONFLICT or DUPLICATE
-- BOUND      500 tasks
--
-- When Redis is full the first HSET is refused, and nothing has been written.
-- include: codes clock mark create

redis.call("LLEN", KEYS[1])
local _, _, now_ns = clock()
local codes, ids = {}, {}
local a = 2
for k = 3, #KEYS do
  local id, nonce, lock = ARGV[a], ARGV[a + 2], ARGV[a + 3]
  local code = creatable(KEYS[k], id, nonce, lock, ARGV[1])
  if code == OK then
    create(KEYS[k], id, ARGV[a + 1], "pending", nonce, lock, ARGV[a + 4], "pending_since", now_ns)
    ids[#ids + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 5
end
if #ids > 0 then
  redis.call("LPUSH", KEYS[1], unpack(ids))
  mark(KEYS[2])
end
return codes
