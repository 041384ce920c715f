-- Ends tasks that succeeded and are kept for a while. Their locks are given up.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    completed
-- KEYS[4]    processed, total
-- KEYS[5]    processed, today
-- KEYS[6..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counter in seconds
-- ARGV[2..]  for each task: id, token, msg ("" = as it is), retention in seconds
-- RETURN     for each task: OK, ALREADY, GONE or LOST
-- BOUND      500 tasks
-- include: codes clock counters locks active held

redis.call("ZCARD", KEYS[3])
local now = clock()
local codes, ids, entries = {}, {}, {}
local writes = {}
local a = 2
for k = 6, #KEYS do
  local id = ARGV[a]
  local code, lock = held(KEYS[k], ARGV[a + 1], "completed")
  if code == OK then
    ids[#ids + 1] = id
    writes[#writes + 1] = { KEYS[k], ARGV[a + 2], lock, id }
    entries[#entries + 1] = now + tonumber(ARGV[a + 3])
    entries[#entries + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 4
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("ZADD", KEYS[3], unpack(entries))
  for _, w in ipairs(writes) do
    store(w[1], w[2], "completed")
    if w[3] then
      release(w[3], w[4])
      redis.call("HDEL", w[1], "unique_key")
    end
  end
  count(KEYS[4], KEYS[5], #ids, ARGV[1])
end
return codes
