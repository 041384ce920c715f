-- Creates tasks in pending.
--
-- KEYS[1]    pending
-- KEYS[2]    marker
-- KEYS[3]    idempotency record
-- KEYS[4..]  the task's hash, for each task
-- ARGV[1]    number of the call
-- ARGV[2]    length of the prefix of the task keys, before the ID
-- ARGV[3]    1 if all IDs are random, so that they need no check for conflicts
-- ARGV[4..]  for each task: msg; then for each lock: number of its task, lock, TTL in seconds
-- RETURN     OK if all tasks are created, else for each task: OK, CONFLICT or DUPLICATE; STALE if a
--            later call with the record has run; FIRST instead of OK if pending was empty before
-- BOUND      500 tasks
--
-- The first write is LPUSH: if it fails because of maxmemory or a key of another type, nothing is
-- written. If many tasks are pending already, no marker is set: then no server waits for one, or it
-- polls soon.
--
-- Tasks without locks that have random IDs, or a single one, are the most frequent calls. They need
-- none of the included functions, whose creation would take a third of the time of a single task.
-- If they fail or were executed before, the rest of the script decides.

if #ARGV == #KEYS and (ARGV[3] == "1" or #KEYS == 4 and redis.call("EXISTS", KEYS[4]) == 0) then
  local n, from, ids = #KEYS - 3, ARGV[2] + 1, {}
  for k = 4, #KEYS do
    ids[k - 3] = string.sub(KEYS[k], from)
  end
  local length = redis.pcall("LPUSH", KEYS[1], unpack(ids))
  local number = type(length) == "number" and redis.pcall("INCR", KEYS[3])
  if number == tonumber(ARGV[1]) then -- see begin
    local now = redis.call("TIME")
    local now_ns = string.format("%s%06d000", now[1], now[2])
    for k = 4, #KEYS do
      redis.call("HSET", KEYS[k], "msg", ARGV[k], "state", "pending", "pending_since", now_ns)
    end
    if length - n < 1000 and redis.call("EXISTS", KEYS[2]) == 0 then -- see mark
      redis.call("LPUSH", KEYS[2], "1")
      redis.call("EXPIRE", KEYS[2], "60")
      -- cluster: redis.pcall("PUBLISH", string.match(KEYS[2], "^[^{]*") .. "wake", KEYS[2])
    end
    return length == n and 16 or 0 -- FIRST or OK
  end
  if number then
    redis.call("LPOP", KEYS[1], string.format("%d", n))
    redis.pcall("DECR", KEYS[3])
  end
end
-- include: codes clock mark record create

local tasks = { unpack(KEYS, 4) }
local free = redis.call("EXISTS", unpack(tasks)) == 0
local ids, locks, codes, fine = newTasks(tasks, ARGV[2], { unpack(ARGV, #tasks + 4) }, free)
if fine == 0 then
  return begin(KEYS[3], ARGV[1], codes, fine)
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
local length = redis.call("LPUSH", KEYS[1], unpack(made))
local answer = begin(KEYS[3], ARGV[1], codes, fine)
if answer then
  redis.call("LPOP", KEYS[1], string.format("%d", fine))
  return answer
end
local now_ns = nanoseconds(clock())
for i, id in ipairs(ids) do
  if codes[i] == OK then
    local lock = locks[i]
    create(tasks[i], id, ARGV[i + 3], "pending", lock and lock[1], lock and lock[2], "pending_since", now_ns)
  end
end
if length - fine < 1000 then
  mark(KEYS[2])
end
return created(codes, fine, length == fine)
