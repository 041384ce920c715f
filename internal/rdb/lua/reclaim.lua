-- Reclaims a fetch whose reply was lost: returns the tasks that its token holds to the front of
-- pending, as if they had not been fetched. A task that a follower has replaced is deleted; see
-- lib/replaced.lua.
--
-- KEYS[1]  pending
-- KEYS[2]  active
-- KEYS[3]  lease
-- KEYS[4]  marker
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  token
-- ARGV[3]  cursor: 0 in the first call, then the cursor that the previous call returned
-- RETURN   {next cursor or "0", number of tasks returned to pending}
-- BOUND    about 200 leases per call, scanned twice; the caller repeats it until the cursor is 0.
--          Redis scans a set in its compact form (128 entries by default) in one call.
--
-- A page is scanned again after tasks of it were returned: the cursor of miniredis counts entries
-- and would skip those that have moved up.
-- include: fields clock mark long active replaced

-- taken(active, ids) returns the IDs in the order of the active list, the most recent first. IDs
-- beyond the 1,000 most recent tasks come last, in any order.
local function taken(active, ids)
  local want, sorted = {}, {}
  for _, id in ipairs(ids) do
    want[id] = true
  end
  for _, id in ipairs(redis.call("LRANGE", active, 0, 999)) do
    if want[id] then
      want[id] = nil
      sorted[#sorted + 1] = id
    end
  end
  for id in pairs(want) do
    sorted[#sorted + 1] = id
  end
  return sorted
end

redis.call("LLEN", KEYS[1])
redis.call("LLEN", KEYS[2])
local now, us = clock()
local now_ns, now_ms = nanoseconds(now, us), now * 1000 + math.floor(us / 1000)
local back, relocks, deleted = 0, {}, {}
local page, ids
repeat
  page, ids = redis.call("ZSCAN", KEYS[3], ARGV[3], "COUNT", 200), {}
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    local f = fields(ARGV[1] .. id, "state", "token", "followed", "unique_key")
    if f[1] == "active" and f[2] == ARGV[2] then
      ids[#ids + 1] = id
      deleted[id] = f[3] and f[4] and replaced(id, f[4], f[3], ARGV[1], now_ms, relocks)
    end
  end
  if #ids > 0 then
    ids = taken(KEYS[2], ids)
  end
  for first = 1, #ids, 500 do
    local part, waiting = {}, {}
    for i = first, math.min(first + 499, #ids) do
      part[#part + 1] = ids[i]
      if not deleted[ids[i]] then
        waiting[#waiting + 1] = ids[i]
      end
    end
    removeActive(KEYS[2], KEYS[3], ARGV[1], part)
    if #waiting > 0 then
      redis.call("RPUSH", KEYS[1], unpack(waiting))
    end
    for _, id in ipairs(part) do
      if deleted[id] then
        redis.call("DEL", ARGV[1] .. id)
      else
        redis.call("HSET", ARGV[1] .. id, "state", "pending", "pending_since", now_ns)
        redis.call("HDEL", ARGV[1] .. id, "token", "position", "followed")
      end
    end
    back = back + #waiting
  end
until #ids == 0
relock(relocks)
if back > 0 then
  mark(KEYS[4])
end
return { page[1], back }
