-- Ends tasks that succeeded and are kept for a while. Their locks are given up.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    completed
-- KEYS[4]    processed, total
-- KEYS[5]    processed, today
-- KEYS[6..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counter in seconds
-- ARGV[2..]  for each task: id, token, msg ("" = as it is), retention in seconds, lock ("" = none), result ("" = as it is)
-- RETURN     for each task: OK, ALREADY, GONE or LOST
-- BOUND      500 tasks
-- include: codes fields clock counters locks active held

redis.call("ZCARD", KEYS[3])
local now, us = clock()
local codes, ids, entries = {}, {}, {}
local writes = {}
local a = 2
for k = 6, #KEYS do
  local id = ARGV[a]
  local code = held(KEYS[k], ARGV[a + 1])
  if code == OK then
    ids[#ids + 1] = id
    writes[#writes + 1] = { KEYS[k], ARGV[a + 1], ARGV[a + 2], owns(ARGV[a + 4], id) and ARGV[a + 4], ARGV[a + 5] }
    entries[#entries + 1] = now + tonumber(ARGV[a + 3]) + (us > 0 and 1 or 0)
    entries[#entries + 1] = id
  end
  codes[#codes + 1] = code
  a = a + 6
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("ZADD", KEYS[3], unpack(entries))
  for _, w in ipairs(writes) do
    settle(w[1], w[2], w[3], "completed")
    redis.call("HDEL", w[1], "unique_key")
    if w[4] then
      redis.call("DEL", w[4])
    end
    if w[5] ~= "" then
      redis.call("HSET", w[1], "result", w[5])
    end
  end
  count(KEYS[4], KEYS[5], #ids, ARGV[1])
end
return codes
