-- Makes new tasks that are to be processed later.
--
-- KEYS[1]    scheduled
-- KEYS[2]    marker
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  the task's hash, for each task
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2]    number of the sender's call
-- ARGV[3..]  for each task: id, msg, lock ("" = not unique), TTL of the lock in seconds, time to process in unix seconds,
--            name of the group to wait in from then on ("" = none)
-- RETURN     for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
--
-- A task that is now the first one due leaves the marker: the server that it wakes looks again how long it may sleep.
-- include: codes mark answers create

redis.call("ZCARD", KEYS[1])
local n = #KEYS - 3
local codes = answered(KEYS[3], ARGV[2], n)
if codes then
  return codes
end
local made, new, entries = {}, {}, {}
codes = {}
local free = redis.call("EXISTS", unpack(KEYS, 4)) == 0
for i = 1, n do
  local a = 6 * i - 3
  codes[i] = creatable(KEYS[i + 3], ARGV[a], ARGV[a + 2], ARGV[1], made, free)
end
for i = 1, n do
  if codes[i] == OK then
    local a = 6 * i - 3
    local id, group = ARGV[a], ARGV[a + 5]
    create(KEYS[i + 3], id, ARGV[a + 1], "scheduled", ARGV[a + 2], ARGV[a + 3], group ~= "" and "group", group)
    entries[#entries + 1] = ARGV[a + 4]
    entries[#entries + 1] = id
    new[id] = true
  end
end
if #entries > 0 then
  redis.call("ZADD", KEYS[1], unpack(entries))
  if new[redis.call("ZRANGE", KEYS[1], 0, 0)[1]] then
    mark(KEYS[2])
  end
  remember(KEYS[3], ARGV[2], codes)
end
return codes
