-- replaced(id, lock, till, prefix, now, relocks) returns whether a task that is no longer active or
-- staged is deleted rather than made waiting, because another task has taken over its lock in the
-- meantime (see enqueue_mode.lua) and is waiting or active. till is the field "followed" of the
-- task: when its lock would have expired, in unix milliseconds, as is now. prefix is that of the
-- task keys.
--
-- If the other task has ended, the task gets its lock back for the rest of that time. It only
-- reads; relocks collects these locks: {ID, milliseconds} by key.
local function replaced(id, lock, till, prefix, now, relocks)
  local holder = redis.pcall("GET", lock)
  if type(holder) == "table" then
    redis.call("EXISTS", lock) -- raises if this node does not serve the lock; see fields
    return false
  elseif relocks[lock] then
    return true -- by another task of the call
  end
  local f = holder and fields(prefix .. holder, "state", "unique_key") or {}
  if f[1] and f[1] ~= "archived" and f[1] ~= "completed" then
    return holder ~= id and f[2] == lock
  end
  local left = (tonumber(till) or 0) - now
  if left > 0 then
    relocks[lock] = { id, string.format("%d", left) }
  end
  return false
end

-- relock(relocks) takes the locks that replaced has collected.
local function relock(relocks)
  for lock, of in pairs(relocks) do
    redis.call("SET", lock, of[1], "PX", of[2])
  end
end
