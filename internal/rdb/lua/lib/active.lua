-- search(active, length, want, left) returns the positions of the wanted IDs in the list, counted
-- from the tail: 1 is the last entry. A few IDs cost a scan each, from the tail. Many are found in
-- one pass; with 100,000 active tasks, 500 scans would block Redis for a second or more.
local function search(active, length, want, left)
  local at = {}
  if left <= 8 then
    for id in pairs(want) do
      local index = redis.call("LPOS", active, id, "RANK", "-1")
      at[id] = index and length - index or nil
    end
    return at
  end
  for last = length - 1, 0, -1000 do
    local first = math.max(last - 999, 0)
    local page = redis.call("LRANGE", active, string.format("%d", first), string.format("%d", last))
    for i = #page, 1, -1 do
      local id = page[i]
      if want[id] and not at[id] then
        at[id], left = length - first - i + 1, left - 1
      end
    end
    if left == 0 then
      break
    end
  end
  return at
end

-- removeFromLong removes IDs from an active list of LONG entries and more. Entries from the head
-- take the places of removed ones, so no other entry moves: its position from the tail, stored in
-- the task's hash by the fetch, stays valid while clients push on the head. The entry at a position
-- is compared before it is removed. If it is another ID, because an entry behind it was removed
-- with LREM, or if the task has no position, the list is searched.
--
-- Tasks without a position were fetched while the list was short. The first of them that is found
-- stores the positions of the next 100, which probably finish next.
local function removeFromLong(active, lease, prefix, ids, length)
  local heads = redis.call("LRANGE", active, "0", string.format("%d", #ids - 1))
  local want, at, found, left = {}, {}, 0, 0
  for _, id in ipairs(ids) do
    want[id] = true
  end
  for i, id in ipairs(heads) do
    if want[id] then
      want[id], at[id], found = nil, length - i + 1, found + 1
    end
  end
  local unplaced
  for id in pairs(want) do
    local p = fields(prefix .. id, "position")[1]
    unplaced = unplaced or not p and id
    if p and redis.pcall("LRANGE", active, "-" .. p, "-" .. p)[1] == id then
      want[id], at[id], found = nil, p, found + 1
    else
      left = left + 1
    end
  end
  for id, p in pairs(left > 0 and search(active, length, want, left) or {}) do
    at[id], found = p, found + 1
  end
  local movers, placed = {}, {}
  for i = 1, found do
    local id = heads[i]
    if at[id] then
      at[id] = nil
    else
      movers[#movers + 1] = id
      placed[#movers] = fields(prefix .. id, "position")[1]
    end
  end

  local behind, others = unplaced and at[unplaced] or 0, {}
  if behind > 0 then
    others = redis.call("LRANGE", active, string.format("%d", -behind - 100), string.format("%d", -behind - 1))
  end
  for i, id in ipairs(others) do
    local f = fields(prefix .. id, "state", "position")
    others[i] = f[1] == "active" and not f[2] and id
  end

  redis.call("ZREM", lease, unpack(ids))
  for i, id in ipairs(others) do
    if id then
      redis.call("HSET", prefix .. id, "position", string.format("%d", behind + #others - i + 1))
    end
  end
  if found > 0 then
    redis.call("LPOP", active, string.format("%d", found))
  end
  local m = 0
  for _, p in pairs(at) do
    m = m + 1
    redis.call("LSET", active, "-" .. p, movers[m])
    if placed[m] then
      redis.call("HSET", prefix .. movers[m], "position", p)
    end
  end
end

-- removeActive(active, lease, prefix, ids) removes the IDs from the active list and the lease set.
-- prefix is that of the task keys.
--
-- Tasks usually finish in the order of their fetches or in batches of whole fetches, so the IDs are
-- at one end of the list. The script pops a window at either end and pushes back the IDs that stay:
-- a few commands per batch, where one LREM per ID would scan. Only IDs outside the windows cost
-- more: a scan each if they are few. Many are found in one pass, overwritten with a text that is
-- not an ID, and removed by one LREM.
--
-- The first write is ZREM, which is allowed at maxmemory; after it all writes are. A key of another
-- type aborts the script with no change.
local function removeActive(active, lease, prefix, ids)
  local n = #ids
  if n == 0 then
    return
  end
  local length = redis.call("LLEN", active)
  if length >= LONG then
    return removeFromLong(active, lease, prefix, ids, length)
  end
  redis.call("ZREM", lease, unpack(ids))
  if n == 1 then
    redis.call("LREM", active, "-1", ids[1])
    return
  end
  local want, left = {}, n
  for _, id in ipairs(ids) do
    want[id] = true
  end
  -- window(pop, push, size) removes wanted IDs from one end of the list.
  local function window(pop, push, size)
    local popped, stay = redis.call(pop, active, string.format("%d", size)) or {}, {}
    for i = #popped, 1, -1 do
      local id = popped[i]
      if want[id] then
        want[id] = nil
        left = left - 1
      else
        stay[#stay + 1] = id
      end
    end
    if #stay > 0 then
      redis.call(push, active, unpack(stay))
    end
  end
  window("RPOP", "RPUSH", n)
  if left > 0 then
    window("LPOP", "LPUSH", 2 * n)
  end
  if left > 0 then
    window("RPOP", "RPUSH", 2 * n)
  end
  if left <= 8 then
    for id in pairs(left > 0 and want or {}) do
      redis.call("LREM", active, "-1", id)
    end
    return
  end
  local holes = 0
  for _, p in pairs(search(active, redis.call("LLEN", active), want, left)) do
    redis.call("LSET", active, string.format("%d", -p), "asynq: removed")
    holes = holes + 1
  end
  if holes > 0 then
    redis.call("LREM", active, string.format("%d", -holes), "asynq: removed")
  end
end
