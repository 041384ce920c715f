-- The valid states of a task.
local STATES = {
  active = true, pending = true, scheduled = true, retry = true, archived = true, completed = true, aggregating = true,
}

-- contains(command, key, id) returns a true value if the collection contains the ID. For a key of
-- another type it returns "unknown", which is also true.
local function contains(command, key, id)
  local answer = redis.pcall(command, key, id)
  if type(answer) == "table" then
    redis.call("EXISTS", key) -- raises if this node does not serve the key; see fields
    return "unknown"
  end
  return answer
end

-- usable(key, kind) returns whether the key can be written as a key of this type.
local function usable(key, kind)
  local t = redis.call("TYPE", key).ok
  return t == "none" or t == kind
end
