-- fields(task, ...) reads fields of a task's hash. It returns an empty table if the key does not
-- exist or is of another type.
--
-- Any other error means that this node does not serve the key because its slot is migrating.
-- EXISTS, which accepts keys of all types, raises that error before anything is written.
local function fields(task, ...)
  local f = redis.pcall("HMGET", task, ...)
  if f.err then
    redis.call("EXISTS", task)
    return {}
  end
  return f
end
