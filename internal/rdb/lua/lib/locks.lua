-- release(lock, id) gives up the uniqueness lock if it is this task's own.
local function release(lock, id)
  if lock and lock ~= "" and redis.pcall("GET", lock) == id then
    redis.call("DEL", lock)
  end
end
