-- Checks suspect tasks again, and repairs those that are still broken.
--
-- KEYS[1]    pending
-- KEYS[2]    active
-- KEYS[3]    lease
-- KEYS[4]    scheduled
-- KEYS[5]    retry
-- KEYS[6]    archived
-- KEYS[7]    completed
-- KEYS[8]    groups
-- KEYS[9]    aggregation_sets
-- KEYS[10]   spent_sets
-- KEYS[11]   groups_due
-- KEYS[12]   marker
-- KEYS[13..] the task's hash, for each task
-- ARGV[1]    1 to repair, 0 to report
-- ARGV[2]    prefix of the group keys
-- ARGV[3]    seconds of the lease for an active task without one
-- ARGV[4..]  for each task: id, state when suspected, SHA-1 of a msg that cannot be decoded ("" =
--            it can), score in archived or completed ("" = now), pending_since with which a full
--            scan of pending did not find the ID ("" = the script searches pending)
-- RETURN     for each task: the finding, 1 if repaired
-- BOUND      100 tasks; each that may be in pending or active scans the list, so the caller sends
--            fewer for long lists. With more than 10,000 aggregation sets, the script searches no
--            set and reports no task of them as lost.
--
-- The first write is ZREM, which is allowed at maxmemory.
-- include: clock mark gather findings collections

local now, us = clock()
local now_ns = nanoseconds(now, us)
local zsets = { scheduled = KEYS[4], retry = KEYS[5], archived = KEYS[6], completed = KEYS[7] }

-- staged(id) says whether an aggregation set holds the task.
local sets
-- staged(id) returns whether an aggregation set contains the task.
local function staged(id)
  if not sets then
    local n = redis.pcall("ZCARD", KEYS[9])
    sets = {}
    if type(n) == "table" or n > 10000 then
      sets = "unknown"
    else
      for first = 0, n - 1, 500 do
        for _, set in ipairs(redis.call("ZRANGE", KEYS[9], first, first + 499)) do
          if string.sub(set, 1, #ARGV[2]) == ARGV[2] then
            sets[#sets + 1] = set
          end
        end
      end
      local consumed = redis.pcall("ZRANGE", KEYS[10], 0, 99) -- whose tasks are being deleted
      for _, set in ipairs(consumed.err and {} or consumed) do
        sets[#sets + 1] = set
      end
    end
  end
  if sets == "unknown" then
    return true
  end
  for _, set in ipairs(sets) do
    if contains("ZSCORE", set, id) then
      return true
    end
  end
  return false
end

-- findCollection(id, group) returns the state of the collection that contains the ID, or nil.
local function findCollection(id, group)
  local function has(command, key)
    local answer = contains(command, key, id)
    return answer and answer ~= "unknown"
  end
  if has("LPOS", KEYS[2]) then
    return "active"
  elseif has("LPOS", KEYS[1]) then
    return "pending"
  elseif group ~= "" and has("ZSCORE", ARGV[2] .. group) then
    return "aggregating"
  end
  for _, state in ipairs({ "retry", "scheduled", "archived", "completed" }) do
    if has("ZSCORE", zsets[state]) then
      return state
    end
  end
  return nil
end

-- check returns the finding of a task and its repair: its new state, the collection that it leaves,
-- whether it is in the active list, and its lease.
local function check(id, state, group, unreadable, absent)
  if not STATES[state] then
    local home = findCollection(id, group)
    return STATELESS, { to = home or "archived", there = home, lease = home == "active" and contains("ZSCORE", KEYS[3], id) }
  end
  local set = zsets[state]
  if set then
    local there = contains("ZSCORE", set, id)
    if unreadable and (state == "scheduled" or state == "retry") then
      return UNREADABLE, { to = "archived", set = there and set }
    elseif not there then
      return ORPHAN, { to = unreadable and "archived" or state }
    end
  elseif state == "pending" then
    local there = not absent and contains("LPOS", KEYS[1], id)
    if unreadable then
      return UNREADABLE, { to = "archived", list = there and KEYS[1] }
    elseif not there then
      return ORPHAN, { to = "pending" }
    end
  elseif state == "active" then
    local there, lease = contains("LPOS", KEYS[2], id), contains("ZSCORE", KEYS[3], id)
    if unreadable and not lease then
      return UNREADABLE, { to = "archived", list = there and KEYS[2] }
    elseif not there then
      return ORPHAN, { to = "active", lease = lease }
    elseif not lease then
      return UNLEASED, { to = "active", there = true }
    end
  else
    local key = ARGV[2] .. group
    local there = group ~= "" and contains("ZSCORE", key, id)
    if not there and staged(id) then
      return SOUND
    elseif unreadable then
      return UNREADABLE, { to = "archived", set = there and key, group = group }
    elseif not there then
      return ORPHAN, { to = group ~= "" and "aggregating" or "pending" }
    end
  end
  return SOUND
end

-- repairable returns whether all keys that a repair writes are of the right type.
local function repairable(w)
  if w.there == "unknown" or w.list and not usable(w.list, "list") or w.set and not usable(w.set, "zset") then
    return false
  elseif not usable(KEYS[3], "zset") or not usable(KEYS[12], "list") then
    return false
  elseif w.to == "pending" then
    return usable(KEYS[1], "list")
  elseif w.to == "active" then
    return usable(KEYS[2], "list")
  elseif w.to == "aggregating" then
    return usable(ARGV[2] .. w.group, "zset") and usable(KEYS[8], "set") and usable(KEYS[11], "zset")
  end
  return usable(zsets[w.to], "zset") and (not w.group or usable(KEYS[8], "set"))
end

-- repair repairs a task as check has decided.
local function repair(w)
  redis.call("ZREM", KEYS[3], w.id)
  if w.list then
    redis.call("LREM", w.list, 0, w.id)
  end
  if w.set then
    redis.call("ZREM", w.set, w.id)
    if w.group and w.group ~= "" and redis.call("EXISTS", w.set) == 0 then
      redis.call("SREM", KEYS[8], w.group)
    end
  end
  if w.to == "active" then
    if not w.there then
      redis.call("LPUSH", KEYS[2], w.id)
    end
    redis.call("ZADD", KEYS[3], w.lease or now + tonumber(ARGV[3]) + 1, w.id)
    redis.call("HSET", w.task, "state", "active")
  else
    if w.there then
      -- Only the state was wrong.
    elseif w.to == "pending" then
      redis.call("LPUSH", KEYS[1], w.id)
      mark(KEYS[12])
    elseif w.to == "aggregating" then
      gather(KEYS[8], KEYS[11], { { ARGV[2] .. w.group, w.group, w.id } }, now)
    elseif w.to == "archived" or w.to == "completed" then
      redis.call("ZADD", zsets[w.to], w.score ~= "" and w.score or now, w.id)
    else
      redis.call("ZADD", zsets[w.to], now, w.id)
    end
    redis.call("HSET", w.task, "state", w.to)
    redis.call("HDEL", w.task, "token", "position")
  end
  if w.to == "pending" then
    redis.call("HSET", w.task, "pending_since", now_ns)
  else
    redis.call("HDEL", w.task, "pending_since")
  end
end

local reply, writes = {}, {}
local a = 4
for k = 13, #KEYS do
  local id, finding, repaired = ARGV[a], SOUND, 0
  local kind = redis.call("TYPE", KEYS[k]).ok
  if kind == "hash" then
    local f = redis.call("HMGET", KEYS[k], "state", "msg", "group", "pending_since")
    local state, group, since = f[1] or "", f[3] or "", ARGV[a + 4]
    if state == ARGV[a + 1] and (since == "" or f[4] == since) then
      local unreadable = ARGV[a + 2] ~= "" and redis.sha1hex(f[2] or "") == ARGV[a + 2]
      local w
      finding, w = check(id, state, group, unreadable, since ~= "")
      if w and ARGV[1] == "1" then
        w.group = w.group or w.to == "aggregating" and group or nil
        if repairable(w) then
          w.id, w.task, w.score = id, KEYS[k], ARGV[a + 3]
          writes[#writes + 1] = w
          repaired = 1
        end
      end
    end
  elseif kind ~= "none" then
    finding = WRONG_TYPE
  end
  reply[#reply + 1] = finding
  reply[#reply + 1] = repaired
  a = a + 5
end
for _, w in ipairs(writes) do
  repair(w)
end
return reply
