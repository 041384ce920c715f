-- Makes new tasks that are to be processed later.
--
-- KEYS[1]    scheduled
-- KEYS[2]    marker
-- KEYS[3..]  the task's hash, for each task
-- ARGV[1]    prefix of the task keys, to look up the holder of a lock
-- ARGV[2..]  for each task: id, msg, nonce, lock ("" = not unique), TTL of the lock in seconds, time to process in unix seconds,
--            name of the group to wait in from then on ("" = none)
-- RETURN     for each task: OK, ALREADY, CONFLICT or DUPLICATE
-- BOUND      500 tasks
--
-- A task that is now the first one due leaves the marker: the server that it wakes looks again how long it may sleep.
-- include: codes mark create

redis.call("ZCARD", KEYS[1])
local codes, entries, new = {}, {}, {}
local a = 2
for k = 3, #KEYS do
  local id, nonce, lock = ARGV[a], ARGV[a + 2], ARGV[a + 3]
  local code = creatable(KEYS[k], id, nonce, lock, ARGV[1])
  if code == OK then
    if ARGV[a + 6] == "" then
      create(KEYS[k], id, ARGV[a + 1], "scheduled", nonce, lock, ARGV[a + 4])
    else
      create(KEYS[k], id, ARGV[a + 1], "scheduled", nonce, lock, ARGV[a + 4], "group", ARGV[a + 6])
    end
    entries[#entries + 1] = ARGV[a + 5]
    entries[#entries + 1] = id
    new[id] = true
  end
  codes[#codes + 1] = code
  a = a + 7
end
if #entries > 0 then
  redis.call("ZADD", KEYS[1], unpack(entries))
  if new[redis.call("ZRANGE", KEYS[1], 0, 0)[1]] then
    mark(KEYS[2])
  end
end
return codes
