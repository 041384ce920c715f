-- Creates tasks that are scheduled or in groups, and the tasks of scheduler ticks. enqueue.lua
-- creates all others.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    scheduled
-- KEYS[4]    groups
-- KEYS[5]    groups_due
-- KEYS[6]    idempotency record, of the client or of the scheduler entry
-- KEYS[7..]  the task's hash, for each task
-- ARGV[1]    number of the call; that of a tick is its unix milliseconds
-- ARGV[2]    length of the prefix of the task keys, before the ID
-- ARGV[3]    prefix of the group keys
-- ARGV[4]    of a tick, unix milliseconds after which the call does nothing; -1 = no tick
-- ARGV[5]    TTL of the record of a tick in seconds
-- ARGV[6..]  for each task: msg, time to process in unix seconds (0 = now), group to enter when due
--            ("" = none); then for each lock: number of its task, lock, TTL in seconds
-- RETURN     OK if all tasks are created, else for each task: OK, CONFLICT or DUPLICATE; STALE if a
--            later call with the record has run, LOST if a tick is too late; FIRST instead of OK if
--            the queue was empty before
-- BOUND      500 tasks
--
-- A tick is decided once its task was created or rejected: its record also keeps a rejection. A
-- tick that is too late is LOST even if it is decided, because the next leader may have decided it.
-- A tick without a task is skipped: its code, and that of each repeated call, is STALE. It is
-- recorded also at maxmemory, because the first write is EXPIRE. All other calls fail then, and
-- write nothing.
-- include: codes clock mark gather record create place

local tasks, tick = { unpack(KEYS, 7) }, ARGV[4] ~= "-1"
local now, us = clock()
if tick and #tasks > 0 and now * 1000 + math.floor(us / 1000) > tonumber(ARGV[4]) then
  return { LOST }
end
local answer = tick and load(KEYS[6], ARGV[1], math.max(#tasks, 1))
if answer then
  return answer
elseif #tasks == 0 then
  redis.call("EXPIRE", KEYS[6], ARGV[5])
  store(KEYS[6], ARGV[1], { STALE }, 0, ARGV[5])
  return { STALE }
end
local ids, locks, codes, fine = newTasks(tasks, ARGV[2], { unpack(ARGV, 3 * #tasks + 6) })
local new = {}
local a = 6
for i, id in ipairs(ids) do
  local at, group, lock = ARGV[a + 1], ARGV[a + 2], locks[i] or { "" }
  if codes[i] == OK then
    new[#new + 1] = { task = tasks[i], id = id, msg = ARGV[a], lock = lock[1], ttl = lock[2], at = at, group = group }
    placeable(new[#new], KEYS[1], KEYS[3], KEYS[4], KEYS[5], ARGV[3])
  end
  a = a + 3
end
if tick then
  store(KEYS[6], ARGV[1], codes, fine, ARGV[5])
else
  answer = begin(KEYS[6], ARGV[1], codes, fine)
  if answer then
    return answer
  end
end
local empty = redis.call("EXISTS", KEYS[1], KEYS[3], KEYS[4]) == 0
place(new, KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[3], now, us)
return created(codes, fine, empty)
