-- What the changes from outside have in common: of tasks that nobody works on, wherever they are. q tells the script's keys and where
-- the caller found the IDs:
--
--   pending, groups    keys; without pending, pending tasks stay where they are
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

-- reach(q, at) finds the ID in pending: at.index is where; without it it is not there. Both ends are read once. Elsewhere the first ID
-- is searched for, and up to 10,000 entries behind it are read: a caller that goes through the list, latest first, has most of the others
-- there. It returns false when the searches of this call are as many entries as Redis passes over in about 3 ms: there is always one.
local function reach(q, at)
  local id = at.id
  if not q.places then
    q.places, q.wide, q.searched, q.length = {}, 2 * q.n, q.searched or 0, redis.call("LLEN", q.pending)
    for n, other in ipairs(redis.call("LRANGE", q.pending, 0, q.wide - 1)) do
      q.places[other] = q.places[other] or n - 1
    end
    local last = redis.call("LRANGE", q.pending, -q.wide, -1)
    for n, other in ipairs(last) do
      q.places[other] = q.length - #last + n - 1
    end
  end
  while not q.places[id] and q.next and q.pages > 0 do
    local page = redis.call("LRANGE", q.pending, q.next, q.next + 999)
    for n, other in ipairs(page) do
      q.places[other] = q.places[other] or q.next + n - 1
    end
    q.pages, q.next = #page > 0 and q.pages - 1 or 0, q.next + #page
  end
  at.index = q.places[id]
  if at.index then
    return true
  elseif q.searched > 0 and q.searched + q.length > 200000 then
    return false
  end
  q.searched = q.searched + q.length
  at.index = redis.call("LPOS", q.pending, id) or nil
  if at.index and not q.next then
    q.places[id], q.pages, q.next = at.index, 10, at.index + 1
  end
  return true
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
    return (not q.pending or reach(q, at)) and OK or LATER, at
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

-- pluck(q, out) takes located tasks out of pending. They are overwritten by a text that is no ID, and one LREM takes all of these out
-- of each end, and one those in the middle: one for each would pass over what is in between as often. LTRIM changes nothing here, but
-- works when Redis is full; after it all writes do.
local function pluck(q, out)
  local left, right, middle, first, last = 0, 0, 0, q.length, 0
  for _, at in ipairs(out) do
    local index = at.index
    if index then
      if left + right + middle == 0 then
        redis.call("LTRIM", q.pending, 0, -1)
      end
      redis.call("LSET", q.pending, index, "asynq: struck out")
      if index >= q.length - q.wide then
        right = right + 1
      elseif index < q.wide then
        left = left + 1
      else
        middle, first, last = middle + 1, math.min(first, index), math.max(last, index)
      end
    end
  end
  for _, count in ipairs({ left, -right, middle > 0 and last >= q.length - first and -middle or middle }) do
    if count ~= 0 then
      redis.call("LREM", q.pending, count, "asynq: struck out")
    end
  end
end

-- depart(q, out, strays) takes located tasks out of where they are, and IDs that have no task there out of where the caller found
-- them, each once, but for those in the middle of pending for which there is no time: whoever fetches these drops them. A long list is
-- not searched for them alone: mostly they are gone from it, too. A group that is left empty loses its name. All writes are such as work
-- when Redis is full.
local function depart(q, out, strays)
  local ids, groups = {}, {}
  local function collect(key, id)
    ids[key] = ids[key] or {}
    table.insert(ids[key], id)
  end
  local waiting = {}
  for _, at in ipairs(out) do
    if at.state == "pending" then
      waiting[#waiting + 1] = at
    elseif at.key then
      collect(at.key, at.id)
    end
    if at.state == "aggregating" and not q.set then
      groups[at.key] = at.group
    end
  end
  local home, seen = collection(q, q.from, q.group), {}
  q.searched = q.searched or 1
  for _, id in ipairs(strays) do
    local at = { id = id }
    if not seen[id] and q.from == "pending" and q.pending and reach(q, at) then
      waiting[#waiting + 1] = at
    elseif home then
      collect(home, id)
    end
    seen[id] = true
  end
  pluck(q, waiting)
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
