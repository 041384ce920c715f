-- Creates tasks that have idempotency keys, one task for each key. A key names the first task that
-- was created with it, also after that task is gone.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    scheduled
-- KEYS[4]    groups
-- KEYS[5]    groups_due
-- KEYS[6..]  for each task: the task's hash, its idempotency key
-- ARGV[1]    prefix of the task keys
-- ARGV[2]    prefix of the group keys
-- ARGV[3..]  for each task: id, msg, time to process in unix seconds (0 = now), group to enter when
--            due ("" = none), lock ("" = none), TTL of the lock in seconds, TTL of the idempotency
--            key in seconds
-- RETURN     for each task: its code and the ID that its key names ("" = none). The code is OK,
--            CONFLICT, DUPLICATE, or ALREADY if the key was in use; FIRST instead of OK if the
--            queue was empty before
-- BOUND      500 tasks
--
-- A repeated call finds its own tasks by their keys. A rejected task leaves its key free. The first
-- write is SET: at maxmemory it fails, and nothing is written.
-- include: codes clock mark gather create place

local now, us = clock()
local answer, new, made, named = {}, {}, {}, {}
local a = 3
for k = 6, #KEYS, 2 do
  local key = KEYS[k + 1]
  local t = { task = KEYS[k], id = ARGV[a], msg = ARGV[a + 1], at = ARGV[a + 2], group = ARGV[a + 3], lock = ARGV[a + 4] }
  t.ttl, t.key, t.keep = ARGV[a + 5], key, ARGV[a + 6]
  a = a + 7
  local first = named[key] or redis.call("GET", key)
  local code = first and ALREADY or creatable(t.task, "", t.lock, ARGV[1], made)
  if code == OK then
    placeable(t, KEYS[1], KEYS[3], KEYS[4], KEYS[5], ARGV[2])
    first, named[key] = t.id, t.id
    new[#new + 1] = t
  end
  answer[#answer + 1] = code
  answer[#answer + 1] = first or ""
end
local empty = redis.call("EXISTS", KEYS[1], KEYS[3], KEYS[4]) == 0
for _, t in ipairs(new) do
  redis.call("SET", t.key, t.id, "EX", t.keep)
end
place(new, KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[2], now, us)
for i = 1, empty and #answer or 0, 2 do
  if answer[i] == OK then
    answer[i] = FIRST
  end
end
return answer
