-- creatable(task, id, lock, prefix, made, free) returns whether a new task can be created: OK,
-- CONFLICT or DUPLICATE. If both its ID and its lock are taken, it returns DUPLICATE. It writes
-- only to made, which collects the tasks that the call will create and the future holders of locks.
-- A lock held by a task with this ID is also free: the result is CONFLICT then, or DUPLICATE if id
-- is "".
--
-- A lock whose holder no longer exists is free. free = true asserts that no task of the call
-- exists, as a single EXISTS has shown; usually that is so.
local function creatable(task, id, lock, prefix, made, free)
  if lock ~= "" then
    local holder = redis.pcall("GET", lock)
    if type(holder) == "table" then
      redis.call("EXISTS", lock) -- raises if this node does not serve the lock
      return DUPLICATE -- a key of another type is not a lock
    end
    if made[lock] then
      if id == "" or made[lock] ~= id then
        return DUPLICATE
      end
    elseif holder and holder ~= id and redis.call("EXISTS", prefix .. holder) == 1 then
      return DUPLICATE
    end
  end
  if made[task] or not free and redis.call("EXISTS", task) == 1 then
    return CONFLICT
  end
  made[task] = true
  if lock ~= "" then
    made[lock] = id
  end
  return OK
end

-- create(...) writes the hash of a new task and takes its lock. field and value, if given, are an
-- additional field.
local function create(task, id, msg, state, lock, ttl, field, value)
  if field then
    redis.call("HSET", task, "msg", msg, "state", state, field, value)
  else
    redis.call("HSET", task, "msg", msg, "state", state)
  end
  if lock and lock ~= "" then
    redis.call("HSET", task, "unique_key", lock)
    redis.call("SET", lock, id, "EX", ttl)
  end
end

-- newTasks(tasks, length, locks, free) parses the arguments of a call that creates tasks: their
-- keys, the length of the key prefix, and for each lock the index of its task, the lock and its
-- TTL. It returns the IDs, the locks with their TTLs by task index, the codes, and the number of
-- tasks to create. free is as in creatable.
local function newTasks(tasks, length, locks, free)
  length = tonumber(length)
  local locked, from = {}, length + 1
  for l = 1, #locks, 3 do
    locked[tonumber(locks[l])] = { locks[l + 1], locks[l + 2] }
  end
  local prefix = string.sub(tasks[1], 1, length)
  local ids, codes, made, fine = {}, {}, {}, 0
  for i, task in ipairs(tasks) do
    local id, lock = string.sub(task, from), locked[i]
    local code = creatable(task, "", lock and lock[1] or "", prefix, made, free)
    if code == OK then
      fine = fine + 1
    end
    ids[i], codes[i] = id, code
  end
  return ids, locked, codes, fine
end

-- created(codes, fine, empty) returns the reply of a call that created fine tasks. empty = true:
-- the collection was empty before.
local function created(codes, fine, empty)
  local made = empty and FIRST or OK
  if fine == #codes then
    return made
  end
  for i, code in ipairs(codes) do
    if code == OK then
      codes[i] = made
    end
  end
  return codes
end
