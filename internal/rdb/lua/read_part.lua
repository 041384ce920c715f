-- Returns the counters of a part. It can also compare a page of the members with their tasks, and
-- count those that have ended unnoticed: a server of another library ran them, or they were
-- deleted.
--
-- KEYS[1]  the part
-- KEYS[2]  its open members
-- KEYS[3]  its failed members
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  cursor of the page; "" = compare nothing; due = begin with the first page, if the part has
--          not changed for long
-- ARGV[3]  TTL of the part in seconds
-- RETURN   {1 if the part exists, else 0, version, made, planned, succeeded, failed, deleted, open,
--          1 if closed, else 0, the next cursor, "0" = all pages are read}
-- BOUND    a page of 100 open and 100 failed members; for small sets, all up to 128
-- include: fields clock

local cursor, moved = ARGV[2], {}
local exists = redis.call("EXISTS", KEYS[1])
if cursor == "due" then
  local now, us = clock()
  cursor = tonumber(redis.call("HGET", KEYS[1], "check") or 0) <= now * 1000 + us / 1000 and "0" or ""
end
if cursor ~= "" and exists == 1 then
  local page = redis.call("SSCAN", KEYS[2], cursor, "COUNT", 100)
  local ended = { completed = {}, archived = {}, gone = {} }
  for _, id in ipairs(page[2]) do
    local state = fields(ARGV[1] .. id, "state")[1] or "gone"
    if ended[state] then
      table.insert(ended[state], id)
    end
  end
  local healed, lost, again = {}, {}, {}
  for _, id in ipairs(cursor == "0" and redis.call("SRANDMEMBER", KEYS[3], 100) or {}) do
    local state = fields(ARGV[1] .. id, "state")[1]
    if state == "completed" then
      healed[#healed + 1] = id
    elseif not state then
      lost[#lost + 1] = id
    elseif state ~= "archived" then
      again[#again + 1] = id
    end
  end
  local function leave(key, ids, counter)
    if #ids > 0 then
      local n = redis.call("SREM", key, unpack(ids))
      redis.call("HINCRBY", KEYS[1], counter, n)
      moved[1] = true
    end
  end
  leave(KEYS[2], ended.completed, "succeeded")
  leave(KEYS[2], ended.gone, "deleted")
  leave(KEYS[3], healed, "succeeded")
  leave(KEYS[3], lost, "deleted")
  if #ended.archived > 0 then
    redis.call("SREM", KEYS[2], unpack(ended.archived))
    redis.call("SADD", KEYS[3], unpack(ended.archived))
    moved[1] = true
  end
  if #again > 0 then -- they run again
    redis.call("SREM", KEYS[3], unpack(again))
    redis.call("SADD", KEYS[2], unpack(again))
    moved[1] = true
  end
  if moved[1] then
    redis.call("HINCRBY", KEYS[1], "version", 1)
  end
  for _, key in ipairs(KEYS) do
    redis.call("EXPIRE", key, ARGV[3])
  end
  cursor = page[1]
end
local f = redis.call("HMGET", KEYS[1], "version", "made", "planned", "succeeded", "deleted", "closed")
local function number(i)
  return tonumber(f[i] or "0") or 0
end
return { exists, number(1), number(2), number(3), number(4), redis.call("SCARD", KEYS[3]), number(5), redis.call("SCARD", KEYS[2]),
  f[6] and 1 or 0, cursor == "" and "0" or cursor }
