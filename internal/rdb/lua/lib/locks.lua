-- owns(lock, id) says whether the uniqueness lock is this task's own to give up. It only reads, so that it can be asked before the
-- first write.
local function owns(lock, id)
  if not lock or lock == "" then
    return false
  end
  local holder = redis.pcall("GET", lock)
  if type(holder) == "table" then
    redis.call("EXISTS", lock) -- raises where the lock is not served here now; see fields
    return false
  end
  return holder == id
end
