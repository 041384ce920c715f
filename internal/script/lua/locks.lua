-- owns(lock, id) returns whether the task holds the uniqueness lock. It only reads, so scripts can
-- call it before their first write.
local function owns(lock, id)
  if not lock or lock == "" then
    return false
  end
  local holder = redis.pcall("GET", lock)
  if type(holder) == "table" then
    redis.call("EXISTS", lock) -- raises if this node does not serve the lock; see fields
    return false
  end
  return holder == id
end
