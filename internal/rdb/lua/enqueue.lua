-- Makes new tasks that wait in pending.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    record of the sender's last call
-- KEYS[4..]  the task's hash, for each task
-- ARGV[1]    number of the sender's call
-- ARGV[2]    length of the prefix of the task keys; the rest is the ID
-- ARGV[3..]  for each task: msg; then for each lock: number of its task, lock, TTL in seconds
-- RETURN     OK if all tasks are made, else for each task: OK, CONFLICT or DUPLICATE; STALE if a later call of the sender was executed
-- BOUND      500 tasks
--
-- When Redis is full the first SET is refused, and nothing has been written. Where many tasks wait already, no marker is left: no
-- server waits for one then, or it finds out by looking.
-- include: codes clock mark answers create

local tasks = { unpack(KEYS, 4) }
local free = redis.call("EXISTS", unpack(tasks)) == 0
local ids, locks, codes, fine = newcomers(tasks, ARGV[2], { unpack(ARGV, #tasks + 3) }, free)
local answer, before = recall(KEYS[3], ARGV[1], codes, fine)
if answer or fine == 0 then
  return answer or codes
end
local made = ids
if fine < #ids then
  made = {}
  for i, id in ipairs(ids) do
    if codes[i] == OK then
      made[#made + 1] = id
    end
  end
end
local length = redis.pcall("LPUSH", KEYS[1], unpack(made))
if type(length) == "table" then
  forget(KEYS[3], before)
  return length
end
local now_ns = nanoseconds(clock())
for i, id in ipairs(ids) do
  if codes[i] == OK then
    local lock = locks[i]
    create(tasks[i], id, ARGV[i + 2], "pending", lock and lock[1], lock and lock[2], "pending_since", now_ns)
  end
end
if length - fine < 1000 then
  mark(KEYS[2])
end
return fine == #codes and OK or codes
