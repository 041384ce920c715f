-- Gives tasks back unfinished: to the front of pending, without a used attempt.
--
-- KEYS[1]    active
-- KEYS[2]    lease
-- KEYS[3]    pending
-- KEYS[4]    marker
-- KEYS[5..]  the task's hash, for each task, the one to run first last
-- ARGV[1..]  for each task: id, token
-- RETURN     for each task: OK, ALREADY, GONE or LOST
-- BOUND      500 tasks
-- include: codes fields clock mark active held

redis.call("LLEN", KEYS[3])
local now_ns = nanoseconds(clock())
local codes, ids, writes = {}, {}, {}
local a = 1
for k = 5, #KEYS do
  local code = held(KEYS[k], ARGV[a + 1])
  if code == OK then
    ids[#ids + 1] = ARGV[a]
    writes[#writes + 1] = { KEYS[k], ARGV[a + 1] }
  end
  codes[#codes + 1] = code
  a = a + 2
end
if #ids > 0 then
  strike(KEYS[1], KEYS[2], ids)
  redis.call("RPUSH", KEYS[3], unpack(ids))
  for _, w in ipairs(writes) do
    settle(w[1], w[2], "", "pending", "pending_since", now_ns)
  end
  mark(KEYS[4])
end
return codes
