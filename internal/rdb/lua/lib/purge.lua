-- condemned(prefix, ids, state) lists the keys that go with tasks: their hashes, and the locks that they hold. A task whose state names
-- another collection stays. It only reads.
local function condemned(prefix, ids, state)
  local keys = {}
  for _, id in ipairs(ids) do
    local f = fields(prefix .. id, "state", "unique_key")
    if f[1] == state then
      keys[#keys + 1] = prefix .. id
      if owns(f[2], id) then
        keys[#keys + 1] = f[2]
      end
    end
  end
  return keys
end

-- purge(set, prefix, ids, state) takes IDs out of a sorted set and deletes their tasks and locks. Of a task whose state names
-- another collection only the stray ID goes.
local function purge(set, prefix, ids, state)
  if #ids == 0 then
    return 0
  end
  local keys = condemned(prefix, ids, state)
  redis.call("ZREM", set, unpack(ids))
  if #keys > 0 then
    redis.call("DEL", unpack(keys))
  end
  return #ids
end
