-- Takes tasks back from a worker that let their lease end, and puts them to the front of pending. IDs in lease without an
-- active task are struck out.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    pending
-- KEYS[4]    marker
-- KEYS[5]    processed, total
-- KEYS[6]    processed, today
-- KEYS[7]    failed, total
-- KEYS[8]    failed, today
-- KEYS[9..]  the task's hash, for each task, the one to run first last
-- ARGV[1]    TTL of the daily counters in seconds
-- ARGV[2]    name of the recovery
-- ARGV[3..]  for each task: id, token, msg ("" = as it is), 1 if the attempt counts as processed and failed, else 0
-- RETURN     for each task: OK, ALREADY, GONE (an ID without an active task, struck out) or LOST
-- BOUND      500 tasks
-- include: codes fields clock mark counters active held expired

redis.call("LLEN", KEYS[3])
local now, us = clock()
local now_ns = nanoseconds(now, us)
local codes, out, back, writes, failures = {}, {}, {}, {}, 0
local a = 3
for k = 9, #KEYS do
  local id = ARGV[a]
  local code = held(KEYS[k], ARGV[a + 1], ARGV[2])
  if code == OK and not expired(KEYS[2], id, now) then
    code = LOST
  elseif code == LOST and fields(KEYS[k], "state")[1] ~= "active" and redis.call("ZSCORE", KEYS[2], id) then
    code = GONE -- the task is elsewhere
  end
  if code == GONE then
    out[#out + 1] = id
  elseif code == OK then
    out[#out + 1] = id
    back[#back + 1] = id
    writes[#writes + 1] = { KEYS[k], ARGV[a + 2] }
    failures = failures + tonumber(ARGV[a + 3])
  end
  codes[#codes + 1] = code
  a = a + 4
end
strike(KEYS[1], KEYS[2], out)
if #back > 0 then
  redis.call("RPUSH", KEYS[3], unpack(back))
  for _, w in ipairs(writes) do
    settle(w[1], ARGV[2], w[2], "pending", "pending_since", now_ns)
  end
  count(KEYS[5], KEYS[6], failures, ARGV[1])
  count(KEYS[7], KEYS[8], failures, ARGV[1])
  mark(KEYS[4])
end
return codes
