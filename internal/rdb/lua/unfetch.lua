-- Undoes a fetch whose reply was lost: what is held under its token goes back to the front of pending, as if never taken.
--
-- KEYS[1]  pending
-- KEYS[2]  active
-- KEYS[3]  lease
-- KEYS[4]  marker
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  token
-- ARGV[3]  cursor: 0 in the first call, then what the call before returned
-- RETURN   {next cursor or "0", number of tasks put back}
-- BOUND    about 200 leases a call, looked at twice; the caller loops until the cursor is 0. A set that Redis keeps in its
--          compact form (128 entries unless configured) comes in one piece.
--
-- A page is read again after tasks of it were put back: the cursor of miniredis counts entries, and would pass over those that
-- have moved up.
-- include: fields clock mark active

-- taken(active, ids) returns the IDs in the order in which the active list has them, the last one taken first. IDs beyond the
-- thousand tasks that were taken last come in the end, in any order.
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
local now_ns = nanoseconds(clock())
local back = 0
local page, ids
repeat
  page, ids = redis.call("ZSCAN", KEYS[3], ARGV[3], "COUNT", 200), {}
  for i = 1, #page[2], 2 do
    local id = page[2][i]
    local f = fields(ARGV[1] .. id, "state", "token")
    if f[1] == "active" and f[2] == ARGV[2] then
      ids[#ids + 1] = id
    end
  end
  if #ids > 0 then
    ids = taken(KEYS[2], ids)
  end
  for first = 1, #ids, 500 do
    local part = {}
    for i = first, math.min(first + 499, #ids) do
      part[#part + 1] = ids[i]
    end
    strike(KEYS[2], KEYS[3], part)
    redis.call("RPUSH", KEYS[1], unpack(part))
    for _, id in ipairs(part) do
      redis.call("HSET", ARGV[1] .. id, "state", "pending", "pending_since", now_ns)
      redis.call("HDEL", ARGV[1] .. id, "token")
    end
  end
  back = back + #ids
until #ids == 0
if back > 0 then
  mark(KEYS[4])
end
return { page[1], back }
