-- deletable(prefix, ids, state) returns the keys to delete with tasks: their hashes, and the locks
-- that they hold. It skips tasks in another state. The second result is the number of tasks. It
-- only reads.
local function deletable(prefix, ids, state)
  local keys, tasks = {}, 0
  for _, id in ipairs(ids) do
    local f = fields(prefix .. id, "state", "unique_key")
    if f[1] == state then
      tasks = tasks + 1
      keys[#keys + 1] = prefix .. id
      if owns(f[2], id) then
        keys[#keys + 1] = f[2]
      end
    end
  end
  return keys, tasks
end

-- purge(set, prefix, ids, state) removes IDs from a sorted set and deletes their tasks and locks.
-- Of a task in another state it removes only the orphan ID. It returns the number of IDs removed,
-- and of tasks deleted.
local function purge(set, prefix, ids, state)
  if #ids == 0 then
    return 0, 0
  end
  local keys, tasks = deletable(prefix, ids, state)
  redis.call("ZREM", set, unpack(ids))
  if #keys > 0 then
    redis.call("DEL", unpack(keys))
  end
  return #ids, tasks
end
