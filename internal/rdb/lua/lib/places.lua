-- The texts that a task's state can have.
local STATES = {
  active = true, pending = true, scheduled = true, retry = true, archived = true, completed = true, aggregating = true,
}

-- present(command, key, id) asks a collection for an ID, and answers something true where it has it. A key of another type is no
-- collection that could be judged: the answer is "unknown", which is true as well.
local function present(command, key, id)
  local answer = redis.pcall(command, key, id)
  if type(answer) == "table" then
    redis.call("EXISTS", key) -- raises where the key is not served here now; see fields
    return "unknown"
  end
  return answer
end

-- usable(key, kind) says whether the key can be written to as what it must be.
local function usable(key, kind)
  local t = redis.call("TYPE", key).ok
  return t == "none" or t == kind
end
