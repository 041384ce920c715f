-- purge(set, prefix, ids, state) takes IDs out of a sorted set and deletes their tasks and locks. A task whose state names
-- another collection stays: only the stray ID goes.
local function purge(set, prefix, ids, state)
  if #ids == 0 then
    return 0
  end
  redis.call("ZREM", set, unpack(ids))
  for _, id in ipairs(ids) do
    local task = prefix .. id
    local f = redis.pcall("HMGET", task, "state", "unique_key")
    if f[1] == state then
      redis.call("DEL", task)
      release(f[2], id)
    end
  end
  return #ids
end
