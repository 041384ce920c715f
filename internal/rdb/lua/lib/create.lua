-- creatable decides whether a new task may be made: OK, ALREADY, CONFLICT or DUPLICATE.
--
-- An empty nonce says that the ID is random: only an earlier try of this very call can have made a task with it. Where the user
-- chose the ID, the nonce of the call, kept in the hash, tells a repeated try from a conflict.
-- A lock whose holder is gone is nobody's: it is taken over.
local function creatable(task, id, nonce, lock, prefix)
  if redis.call("EXISTS", task) == 1 then
    if nonce == "" or redis.pcall("HGET", task, "nonce") == nonce then
      return ALREADY
    end
    if lock ~= "" and redis.call("EXISTS", lock) == 1 and redis.pcall("GET", lock) ~= id then
      return DUPLICATE
    end
    return CONFLICT
  end
  if lock ~= "" then
    local holder = redis.pcall("GET", lock)
    if type(holder) == "table" then
      return DUPLICATE -- a key of another type: whatever it is, it is not ours to take
    end
    if holder and holder ~= id and redis.call("EXISTS", prefix .. holder) == 1 then
      return DUPLICATE
    end
  end
  return OK
end

-- create writes the hash of a new task and takes its lock. field and value, if given, are one more field.
local function create(task, id, msg, state, nonce, lock, ttl, field, value)
  if field then
    redis.call("HSET", task, "msg", msg, "state", state, field, value)
  else
    redis.call("HSET", task, "msg", msg, "state", state)
  end
  if nonce ~= "" then
    redis.call("HSET", task, "nonce", nonce)
  end
  if lock ~= "" then
    redis.call("HSET", task, "unique_key", lock)
    redis.call("SET", lock, id, "EX", ttl)
  end
end
