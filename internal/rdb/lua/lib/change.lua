-- What the changes from outside have in common: of tasks that nobody works on, wherever they are. q tells the script's keys and where
-- the caller found the IDs:
--
--   pending, groups    keys
--   sets               the keys of sorted sets, by the state that they stand for
--   prefix             of the group keys
--   n                  number of tasks of the call
--   from               the state that the caller found the IDs in; "" = they were given to it
--   group              and their group, where from is "aggregating"
--   set                key of the group or aggregation set that the caller empties, whatever its tasks say of their group; nil = tasks
--                      in aggregation stay where they are
local function collection(q, state, group)
  if state == "aggregating" then
    return q.set or q.prefix .. group
  end
  return q.sets[state]
end

-- reach(q, id) says from which side the ID is taken out of pending: 1 or -1. Both ends are read once; elsewhere LREM has to search. It
-- returns nil when the searches of this call are as many entries as Redis passes over in about 3 ms: there is always one.
local function reach(q, id)
  if not q.left then
    q.left, q.right, q.searched = {}, {}, 0
    for _, other in ipairs(redis.call("LRANGE", q.pending, 0, 2 * q.n - 1)) do
      q.left[other] = true
    end
    for _, other in ipairs(redis.call("LRANGE", q.pending, -2 * q.n, -1)) do
      q.right[other] = true
    end
    q.length = redis.call("LLEN", q.pending)
  end
  if q.right[id] then
    return -1
  elseif q.left[id] then
    return 1
  elseif q.searched > 0 and q.searched + q.length > 200000 then
    return nil
  end
  q.searched = q.searched + q.length
  return -1
end

-- locate(q, task, id) finds a task: OK, and where it is. It is LOST if it is not in the state that the caller found its ID in. It only
-- reads, so that a key of another type ends the script before anything is written.
local function locate(q, task, id)
  local f = fields(task, "state", "group", "unique_key")
  local state, group = f[1], f[2] or ""
  if not state then
    return GONE
  elseif q.from ~= "" and state ~= q.from then
    return LOST
  elseif state == "active" then
    return ACTIVE
  end
  local at = { id = id, task = task, state = state, group = group, lock = f[3], key = collection(q, state, group) }
  if state == "pending" then
    at.side = reach(q, id)
    return at.side and OK or LATER, at
  elseif state == "aggregating" then
    local score = redis.pcall("ZSCORE", at.key, id)
    if type(score) == "table" then
      redis.call("EXISTS", at.key) -- raises where the key is not served here now; see fields
      return BROKEN
    elseif not score or not q.set and q.group ~= "" and group ~= q.group then
      return STAGED
    end
  elseif at.key and at.key ~= q.sound then
    redis.call("ZCARD", at.key)
    q.sound = at.key
  end
  return OK, at
end

-- depart(q, out, strays) takes located tasks out of where they are, and IDs that have no task there out of where the caller found
-- them. A group that is left empty loses its name. All writes are such as work when Redis is full.
local function depart(q, out, strays)
  local ids, groups = {}, {}
  local function collect(key, id)
    ids[key] = ids[key] or {}
    table.insert(ids[key], id)
  end
  for _, at in ipairs(out) do
    if at.state == "pending" then
      redis.call("LREM", q.pending, at.side, at.id)
    elseif at.key then
      collect(at.key, at.id)
    end
    if at.state == "aggregating" and not q.set then
      groups[at.key] = at.group
    end
  end
  local home = collection(q, q.from, q.group)
  for _, id in ipairs(strays) do
    if q.from == "pending" then
      redis.call("LREM", q.pending, -1, id)
    elseif home then
      collect(home, id)
    end
  end
  for key, members in pairs(ids) do
    redis.call("ZREM", key, unpack(members))
  end
  if q.from == "aggregating" and q.group ~= "" then
    groups[home] = q.group
  end
  for key, name in pairs(groups) do
    if redis.call("EXISTS", key) == 0 then
      redis.call("SREM", q.groups, name)
    end
  end
end
