-- Ends tasks whose attempt failed, and that must go: the task and its lock are deleted.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    processed, total
-- KEYS[4]    processed, today
-- KEYS[5]    failed, total
-- KEYS[6]    failed, today
-- KEYS[7..]  the task's hash, for each task
-- ARGV[1]    TTL of the daily counters in seconds
-- ARGV[2..]  for each task: id, token, lock ("" = none)
-- RETURN     for each task: OK, ALREADY, GONE or LOST. GONE is the answer to a repeated call.
-- BOUND      500 tasks
-- include: codes fields counters locks active held

local codes, ids, doomed = {}, {}, {}
local a = 2
for k = 7, #KEYS do
  local code = held(KEYS[k], ARGV[a + 1])
  if code == OK then
    ids[#ids + 1] = ARGV[a]
    doomed[#doomed + 1] = KEYS[k]
    if owns(ARGV[a + 2], ARGV[a]) then
      doomed[#doomed + 1] = ARGV[a + 2]
    end
  end
  codes[#codes + 1] = code
  a = a + 3
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("DEL", unpack(doomed))
  count(KEYS[3], KEYS[4], #ids, ARGV[1])
  count(KEYS[5], KEYS[6], #ids, ARGV[1])
end
return codes
