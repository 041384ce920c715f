-- wake(task, id, group, set, pending, marker) moves a task from a sorted set, retry or scheduled,
-- to the front of pending: it has run before, and ordered queues require it. A task of a group
-- stays, because it returns to its group when its time comes. wake reports whether it has moved the
-- task.
--
-- The first write is ZREM, which is allowed at maxmemory.
local function wake(task, id, group, set, pending, marker)
  if group and group ~= "" then
    return false
  end
  redis.call("LLEN", pending)
  local now, us = clock()
  redis.call("ZREM", set, id)
  redis.call("HSET", task, "state", "pending", "pending_since", nanoseconds(now, us))
  redis.call("RPUSH", pending, id)
  mark(marker)
  return true
end
