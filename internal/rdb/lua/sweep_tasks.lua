-- Deletes tasks that are in no collection, with their locks.
--
-- KEYS[1]    pending
-- KEYS[2]    active
-- KEYS[3]    scheduled
-- KEYS[4]    retry
-- KEYS[5]    archived
-- KEYS[6]    completed
-- KEYS[7]    aggregation_sets
-- KEYS[8..]  the task's hash, for each task
-- ARGV[1]    prefix of the group keys
-- ARGV[2..]  for each task: id
-- RETURN     for each task: OK, or LOST if it is in a collection or may be
-- BOUND      500 tasks, 1,000 entries at either end of a list, 10 aggregation sets
--
-- Only a list, or more aggregation sets, that are longer than that leave it open whether a task is there. What is left of a queue
-- whose tasks were deleted is short.
-- include: codes fields locks

-- listed(list) returns the IDs in a list, nil if they are too many.
local function listed(list)
  local ids = redis.call("LRANGE", list, 0, 999)
  if #ids == 1000 then
    return nil
  end
  local has = {}
  for _, id in ipairs(ids) do
    has[id] = true
  end
  return has
end

local sets = { scheduled = KEYS[3], retry = KEYS[4], archived = KEYS[5], completed = KEYS[6] }
local lists = { pending = listed(KEYS[1]), active = listed(KEYS[2]) }
local stages = redis.call("ZRANGE", KEYS[7], 0, 9)

local function placed(state, group, id)
  if state == "pending" or state == "active" then
    return not lists[state] or lists[state][id]
  elseif state == "aggregating" then
    if #stages == 10 or redis.call("ZSCORE", ARGV[1] .. group, id) then
      return true
    end
    for _, stage in ipairs(stages) do
      if redis.call("ZSCORE", stage, id) then
        return true
      end
    end
    return false
  end
  return sets[state] and redis.call("ZSCORE", sets[state], id)
end

local codes, doomed = {}, {}
local a = 2
for k = 8, #KEYS do
  local id = ARGV[a]
  local f = fields(KEYS[k], "state", "group", "unique_key")
  local code = LOST
  if not placed(f[1], f[2] or "", id) then
    code = OK
    doomed[#doomed + 1] = KEYS[k]
    if owns(f[3], id) then
      doomed[#doomed + 1] = f[3]
    end
  end
  codes[#codes + 1] = code
  a = a + 1
end
if #doomed > 0 then
  redis.call("UNLINK", unpack(doomed))
end
return codes
