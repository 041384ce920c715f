-- fields(task, ...) reads fields of a task's hash: none of them, if there is no hash under the key.
--
-- A key of another type counts as no hash. Any other error means that this Redis does not serve the key now, because its slot is
-- moving to another shard: EXISTS, which takes keys of all types, raises it, before anything is written.
local function fields(task, ...)
  local f = redis.pcall("HMGET", task, ...)
  if f.err then
    redis.call("EXISTS", task)
    return {}
  end
  return f
end
