-- Moves up to n tasks from pending to active with a lease, without checks.
--
-- KEYS[1]  pending
-- KEYS[2]  active
-- KEYS[3]  lease
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  n
-- RETURN   for each task: id, msg
-- BOUND    n, at most 500

local ids = redis.call("RPOP", KEYS[1], ARGV[2])
if not ids then
  return {}
end
local expiry = redis.call("TIME")[1] + 30
local reply, leases = {}, {}
for _, id in ipairs(ids) do
  local task = ARGV[1] .. id
  reply[#reply + 1] = id
  reply[#reply + 1] = redis.call("HGET", task, "msg")
  leases[#leases + 1] = expiry
  leases[#leases + 1] = id
  redis.call("HSET", task, "state", "active")
  redis.call("HDEL", task, "pending_since")
end
redis.call("LPUSH", KEYS[2], unpack(ids))
redis.call("ZADD", KEYS[3], unpack(leases))
return reply
