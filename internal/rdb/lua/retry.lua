-- Puts tasks whose attempt ended without success aside until their next one.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    retry
-- KEYS[4]    processed, total
-- KEYS[5]    processed, today
-- KEYS[6]    failed, total
-- KEYS[7]    failed, today
-- KEYS[8..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counters in seconds
-- ARGV[2..]  for each task: id, token, msg ("" = as it is), delay in milliseconds, 1 if the attempt counts as processed and failed, else 0
-- RETURN     for each task: OK, ALREADY, GONE or LOST
-- BOUND      500 tasks
-- include: codes fields clock counters active held

redis.call("ZCARD", KEYS[3])
local now, us = clock()
local codes, ids, entries = {}, {}, {}
local writes, failures = {}, 0
local a = 2
for k = 8, #KEYS do
  local id = ARGV[a]
  local code = held(KEYS[k], ARGV[a + 1])
  if code == OK then
    ids[#ids + 1] = id
    writes[#writes + 1] = { KEYS[k], ARGV[a + 1], ARGV[a + 2] }
    -- Whole seconds, rounded up: never before the delay is over.
    entries[#entries + 1] = now + math.ceil(us / 1e6 + tonumber(ARGV[a + 3]) / 1000)
    entries[#entries + 1] = id
    failures = failures + tonumber(ARGV[a + 4])
  end
  codes[#codes + 1] = code
  a = a + 5
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("ZADD", KEYS[3], unpack(entries))
  for _, w in ipairs(writes) do
    settle(w[1], w[2], w[3], "retry")
  end
  count(KEYS[4], KEYS[5], failures, ARGV[1])
  count(KEYS[6], KEYS[7], failures, ARGV[1])
end
return codes
