-- The parts that changes of tasks share. They change tasks in any state but active. q describes the
-- keys of the script and where the caller found the IDs:
--
--   pending, groups    keys
--   sets               keys of the sorted sets, by state
--   held               key of the tasks that partitions hold back
--   prefix             prefix of the group keys
--   n                  number of tasks of the call
--   from               state of the collection that held the IDs; "" = any
--   group              their group, if from is "aggregating"
--   unfit              a state in which tasks stay, or false
--
-- collection(q, state, group) returns the key of the tasks in a state.
local function collection(q, state, group)
  return state == "aggregating" and q.prefix .. group or q.sets[state]
end

-- findPending(q, at) sets at.index to the index of the ID in pending, or nil. It reads both ends of
-- the list once. For IDs elsewhere it searches the first one, then reads up to 10,000 entries
-- behind it: a caller that walks the list, newest first, finds most of the others there. It returns
-- false when the call has searched as many entries as Redis scans in about 3 ms; one search is
-- always allowed.
local function findPending(q, at)
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

-- locate(q, task, id) finds a task. It returns OK and its location, or LOST if the task is not in
-- the state in which the caller found it. It only reads, so a key of another type aborts the script
-- before the first write.
local function locate(q, task, id)
  local f = fields(task, "state", "group", "unique_key", "held", "flow")
  local state, group = f[1], f[2] or ""
  if not state then
    return GONE
  elseif q.from ~= "" and state ~= q.from then
    return LOST
  elseif state == "active" then
    return ACTIVE
  elseif state == q.unfit then
    return UNFIT
  end
  local at = { id = id, task = task, state = state, group = group, lock = f[3], key = collection(q, state, group), part = f[5] }
  if state == "scheduled" and f[4] then
    at.held = f[4] .. id
    redis.call("ZCARD", q.held)
  end
  if state == "pending" then
    return findPending(q, at) and OK or LATER, at
  elseif state == "aggregating" then
    local score = redis.pcall("ZSCORE", at.key, id)
    if type(score) == "table" then
      redis.call("EXISTS", at.key) -- raises if this node does not serve the key; see fields
      return BROKEN
    elseif not score or q.group ~= "" and group ~= q.group then
      return STAGED
    end
  elseif at.key and at.key ~= q.sound then
    redis.call("ZCARD", at.key)
    q.sound = at.key
  end
  return OK, at
end

-- removePending(q, out) removes located tasks from pending. It overwrites them with a text that is
-- not an ID. Then one LREM per end and one for the middle remove these; one LREM per ID would scan
-- the list each time. LTRIM changes nothing here but is allowed at maxmemory, and after it all
-- writes are.
local function removePending(q, out)
  local left, right, middle, first, last = 0, 0, 0, q.length, 0
  for _, at in ipairs(out) do
    local index = at.index
    if index then
      if left + right + middle == 0 then
        redis.call("LTRIM", q.pending, 0, -1)
      end
      redis.call("LSET", q.pending, index, "asynq: removed")
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
      redis.call("LREM", q.pending, count, "asynq: removed")
    end
  end
end

-- detach(q, out, orphans) removes located tasks from their collections. It also removes orphan IDs,
-- which have no task there, from the collection in which the caller found them, except those in the
-- middle of pending once the search budget is used up; the next fetch drops these. It does not
-- search a long list for orphan IDs alone, because most have left it too. A group that becomes
-- empty loses its name. All writes are allowed at maxmemory.
local function detach(q, out, orphans)
  local ids, groups, unheld = {}, {}, {}
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
    if at.held then
      collect(q.held, at.held)
      unheld[#unheld + 1] = at.task
    end
    if at.state == "aggregating" then
      groups[at.key] = at.group
    end
  end
  local home, seen = collection(q, q.from, q.group), {}
  q.searched = q.searched or 1
  for _, id in ipairs(orphans) do
    local at = { id = id }
    if not seen[id] and q.from == "pending" and findPending(q, at) then
      waiting[#waiting + 1] = at
    elseif home then
      collect(home, id)
    end
    seen[id] = true
  end
  removePending(q, waiting)
  for key, members in pairs(ids) do
    redis.call("ZREM", key, unpack(members))
  end
  for _, task in ipairs(unheld) do
    redis.call("HDEL", task, "held", "pending_since")
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
