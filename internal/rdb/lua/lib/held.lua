-- held(task, token, settled) says whether the task is active under the fetch token, and with it the lock it holds.
-- settled is the state that the task is in when an earlier try of the same call settled it.
local function held(task, token, settled)
  local f = redis.pcall("HMGET", task, "state", "token", "unique_key")
  if f.err then
    return GONE -- a key of another type: there is no task here
  end
  local state = f[1]
  if not state then
    return GONE
  end
  if (f[2] or "") ~= token then
    return LOST
  end
  if state == "active" then
    return OK, f[3]
  end
  if state == settled then
    return ALREADY
  end
  return LOST
end

-- store(task, msg, state) writes the state in which the attempt leaves the task, and its message unless that is "": as it is.
local function store(task, msg, state)
  if msg == "" then
    redis.call("HSET", task, "state", state)
  else
    redis.call("HSET", task, "msg", msg, "state", state)
  end
end
