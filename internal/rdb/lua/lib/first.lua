-- firstTasks(pending, running, prefix, n, by_type, concurrency, early, waits) returns the first n
-- tasks of the inbox if they may start before it is sorted, and whether others remain. Else, it
-- returns nil. A task has the fields id, key, msg and, if waits is "1", since.
--
-- They may if no others remain, or if early is true and at least 90 % of the first ones, of 10 or
-- more, belong to different partitions: no partition has many tasks before those of others. In both
-- cases, each must be within the concurrency of its partition; 0 = unlimited.
local function firstTasks(pending, running, prefix, n, by_type, concurrency, early, waits)
  local ids = redis.call("LRANGE", pending, string.format("%d", -math.max(n, 10) - 1), "-1")
  local remain = #ids > n
  if remain and not early then
    return nil
  end
  local size = remain and math.min(#ids, math.max(n, 10)) or #ids
  local tasks, seen, starts, partitions, bytes = {}, {}, {}, 0, 0
  for i = 1, size do
    local id = ids[#ids + 1 - i]
    local task = prefix .. id
    local f = waits == "1" and fields(task, "state", "msg", "held", "pending_since") or fields(task, "state", "msg", "held")
    if f[1] ~= "pending" or f[3] or seen[id] then
      return nil
    end
    local msg = f[2] or ""
    local key = partition(msg, by_type)
    bytes, seen[id] = bytes + #msg, true
    if bytes > 1048576 then
      return nil
    end
    if not starts[key] then
      starts[key], partitions = 0, partitions + 1
    end
    if i <= n then
      starts[key], tasks[i] = starts[key] + 1, { id = id, key = key, msg = msg, task = task }
      if waits == "1" then
        tasks[i].since = f[4]
      end
    end
  end
  if remain and partitions * 10 < size * 9 then
    return nil
  end
  if concurrency > 0 then
    for key, number in pairs(starts) do
      if number > 0 and number + redis.call("ZLEXCOUNT", running, "[" .. key .. "\0", "(" .. key .. "\1") > concurrency then
        return nil
      end
    end
  end
  return tasks, remain
end
