-- creatable(task, id, lock, prefix, made, free) says whether a new task may be made: OK, CONFLICT or DUPLICATE. Where both another task
-- has the ID and another holds the lock, the lock is what the caller hears of. It writes nothing but made, in which it keeps the
-- tasks that this call will make, and the locks with who will hold them.
--
-- A lock whose holder is gone is nobody's: it is taken over.
-- free says that no task of the call exists, as one EXISTS for all of them told: nearly always that is so.
local function creatable(task, id, lock, prefix, made, free)
  if lock ~= "" then
    local holder = redis.pcall("GET", lock)
    if type(holder) == "table" then
      redis.call("EXISTS", lock) -- raises where the lock is not served here now
      return DUPLICATE -- a key of another type: whatever it is, it is not ours to take
    end
    if made[lock] then
      if made[lock] ~= id then
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

-- create writes the hash of a new task and takes its lock. field and value, if given, are one more field.
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

-- newcomers(tasks, length, locks, free) reads the tasks of a call that makes some: their keys, the length of the prefix of those, and
-- for each lock the number of its task, the lock and its TTL. It returns the IDs, the locks with their TTLs by number of task, the
-- codes, and how many tasks may be made. free is as for creatable.
local function newcomers(tasks, length, locks, free)
  length = tonumber(length)
  local locked, from = {}, length + 1
  for l = 1, #locks, 3 do
    locked[tonumber(locks[l])] = { locks[l + 1], locks[l + 2] }
  end
  local prefix = string.sub(tasks[1], 1, length)
  local ids, codes, made, fine = {}, {}, {}, 0
  for i, task in ipairs(tasks) do
    local id, lock = string.sub(task, from), locked[i]
    local code = creatable(task, id, lock and lock[1] or "", prefix, made, free)
    if code == OK then
      fine = fine + 1
    end
    ids[i], codes[i] = id, code
  end
  return ids, locked, codes, fine
end
