-- Makes new tasks that wait in a group to be aggregated.
--
-- KEYS[1]    groups
-- KEYS[2]    groups_due
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  for each task: its hash, its group
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2]    number of the sender's call
-- ARGV[3..]  for each task: id, msg, lock ("" = not unique), TTL of the lock in seconds, name of the group
-- RETURN     for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
-- include: codes clock gather answers create

redis.call("SCARD", KEYS[1])
redis.call("ZCARD", KEYS[2])
local n = (#KEYS - 3) / 2
local codes = answered(KEYS[3], ARGV[2], n)
if codes then
  return codes
end
local made, entries = {}, {}
codes = {}
for i = 1, n do
  local a = 5 * i - 2
  redis.call("ZCARD", KEYS[2 * i + 3])
  codes[i] = creatable(KEYS[2 * i + 2], ARGV[a], ARGV[a + 2], ARGV[1], made)
end
local now = clock()
for i = 1, n do
  if codes[i] == OK then
    local a = 5 * i - 2
    create(KEYS[2 * i + 2], ARGV[a], ARGV[a + 1], "aggregating", ARGV[a + 2], ARGV[a + 3], "group", ARGV[a + 4])
    entries[#entries + 1] = { KEYS[2 * i + 3], ARGV[a + 4], ARGV[a] }
  end
end
if #entries > 0 then
  gather(KEYS[1], KEYS[2], entries, now)
  remember(KEYS[3], ARGV[2], codes)
end
return codes
