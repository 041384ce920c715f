-- purge(set, prefix, ids, state) takes IDs out of a sorted set and deletes their tasks and locks. A task whose state names
-- another collection stays: only the stray ID goes.
local function purge(set, prefix, ids, state)
  if #ids == 0 then
    return 0
  end
  local doomed = {}
  for _, id in ipairs(ids) do
    local f = fields(prefix .. id, "state", "unique_key")
    if f[1] == state then
      doomed[#doomed + 1] = prefix .. id
      if owns(f[2], id) then
        doomed[#doomed + 1] = f[2]
      end
    end
  end
  redis.call("ZREM", set, unpack(ids))
  if #doomed > 0 then
    redis.call("DEL", unpack(doomed))
  end
  return #ids
end
