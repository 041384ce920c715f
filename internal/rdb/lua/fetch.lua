-- Takes up to n tasks from pending and makes them active, with a lease, under the fetch's token.
--
-- KEYS[1]  pending
-- KEYS[2]  active
-- KEYS[3]  lease
-- KEYS[4]  paused
-- KEYS[5]  marker
-- ARGV[1]  prefix of the task keys: the IDs are not known before
-- ARGV[2]  n
-- ARGV[3]  length of the lease in seconds
-- ARGV[4]  token
-- ARGV[5]  unix milliseconds after which the call must do nothing; 0 = never
-- ARGV[6]  how many tasks of the queue may be active on all servers together; 0 = any number
-- RETURN   {code, unix milliseconds now, 1 if tasks are left in pending, then for each ID: id, msg or false}
--          code: OK, STALE, PAUSED or CAPPED. false: there was no task with that ID in pending state; the ID is dropped.
-- BOUND    n, at most 500
--
-- The first write is RPOP, which works when Redis is full.
-- include: codes fields clock mark

local now, us = clock()
local now_ms = now * 1000 + math.floor(us / 1000)
local deadline, n, cap = tonumber(ARGV[5]), tonumber(ARGV[2]), tonumber(ARGV[6])
if deadline > 0 and now_ms > deadline then
  return { STALE, now_ms, 0 }
end
if redis.call("EXISTS", KEYS[4]) == 1 then
  return { PAUSED, now_ms, 0 }
end
local leased = redis.call("ZCARD", KEYS[3])
redis.call("LLEN", KEYS[2])
local code = OK
if cap > 0 and leased + n > cap then
  code = CAPPED
  n = cap - leased
  if n <= 0 then
    return { CAPPED, now_ms, 0 }
  end
end

local ids = n > 0 and redis.call("LRANGE", KEYS[1], -n, -1) or {}
if #ids < n then
  code = OK -- it was not the cap that left the fetch short
end
if #ids == 0 then
  return { code, now_ms, 0 }
end
local reply, taken, leases, seen = { code, now_ms, 0 }, {}, {}, {}
local expiry = string.format("%d", now + ARGV[3] + (us > 0 and 1 or 0)) -- as a number it would be printed once for each task
for i = #ids, 1, -1 do
  local id = ids[i]
  local f = fields(ARGV[1] .. id, "state", "msg")
  reply[#reply + 1] = id
  if f[1] == "pending" and not seen[id] then
    seen[id] = true
    reply[#reply + 1] = f[2] or ""
    taken[#taken + 1] = id
    leases[#leases + 1] = expiry
    leases[#leases + 1] = id
  else
    reply[#reply + 1] = false
  end
end

redis.call("RPOP", KEYS[1], #ids)
if #taken > 0 then
  redis.call("LPUSH", KEYS[2], unpack(taken))
  redis.call("ZADD", KEYS[3], unpack(leases))
  for _, id in ipairs(taken) do
    local task = ARGV[1] .. id
    redis.call("HSET", task, "state", "active", "token", ARGV[4])
    redis.call("HDEL", task, "pending_since")
  end
end
if code == OK and #ids == n and redis.call("EXISTS", KEYS[1]) == 1 then
  reply[3] = 1
  mark(KEYS[5])
end
return reply
