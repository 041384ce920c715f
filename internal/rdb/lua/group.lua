-- Makes new tasks that wait in a group to be aggregated.
--
-- KEYS[1]    groups
-- KEYS[2..]  for each task: its hash, its group
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2..]  for each task: id, msg, nonce, lock ("" = not unique), TTL of the lock in seconds, name of the group
-- RETURN     for each task: OK, ALREADY, CONFLICT or DUPLICATE
-- BOUND      500 tasks
-- include: codes clock create

redis.call("SCARD", KEYS[1])
for k = 3, #KEYS, 2 do
  redis.call("ZCARD", KEYS[k])
end
local now = clock()
local codes = {}
local a = 2
for k = 2, #KEYS, 2 do
  local id, nonce, lock, group = ARGV[a], ARGV[a + 2], ARGV[a + 3], ARGV[a + 5]
  local code = creatable(KEYS[k], id, nonce, lock, ARGV[1])
  if code == OK then
    create(KEYS[k], id, ARGV[a + 1], "aggregating", nonce, lock, ARGV[a + 4], "group", group)
    redis.call("ZADD", KEYS[k + 1], now, id)
    redis.call("SADD", KEYS[1], group)
  end
  codes[#codes + 1] = code
  a = a + 6
end
return codes
