-- Counts the tasks of a queue at one moment.
--
-- KEYS[1]   pending
-- KEYS[2]   active
-- KEYS[3]   scheduled
-- KEYS[4]   retry
-- KEYS[5]   archived
-- KEYS[6]   completed
-- KEYS[7]   groups
-- KEYS[8]   aggregation_sets
-- KEYS[9]   paused
-- KEYS[10]  processed, total
-- KEYS[11]  failed, total
-- KEYS[12]  processed, today
-- KEYS[13]  failed, today
-- KEYS[14]  lease
-- KEYS[15]  archive_limits
-- KEYS[16]  partitions:held
-- ARGV[1]   prefix of the task keys
-- ARGV[2]   prefix of the group keys
-- ARGV[3]   maximum number of groups and aggregation sets to count
-- RETURN    {the sizes of KEYS[1] to KEYS[7], tasks in groups and aggregation sets or -1 if there
--           are too many of these, 1 if the queue is paused, the four counters or false, unix
--           nanoseconds now, the lowest scores of scheduled, retry and lease or false,
--           KEYS[15] or false, the size of KEYS[16], pending_since of up to ten tasks at the front of pending}
-- BOUND     ARGV[3], at most 500, and ten tasks
-- include: fields clock

local now_ns = nanoseconds(clock())
local reply = {
  redis.call("LLEN", KEYS[1]), redis.call("LLEN", KEYS[2]), redis.call("ZCARD", KEYS[3]), redis.call("ZCARD", KEYS[4]),
  redis.call("ZCARD", KEYS[5]), redis.call("ZCARD", KEYS[6]), redis.call("SCARD", KEYS[7]), -1,
  redis.call("EXISTS", KEYS[9]), redis.call("GET", KEYS[10]), redis.call("GET", KEYS[11]), redis.call("GET", KEYS[12]),
  redis.call("GET", KEYS[13]), now_ns, false, false, false, redis.call("GET", KEYS[15]),
  redis.call("ZCARD", KEYS[16]),
}
for i, key in ipairs({ KEYS[3], KEYS[4], KEYS[14] }) do
  reply[14 + i] = redis.call("ZRANGE", key, 0, 0, "WITHSCORES")[2] or false
end
if reply[7] + redis.call("ZCARD", KEYS[8]) <= tonumber(ARGV[3]) then
  local seen, n = {}, 0
  local function add(key)
    if not seen[key] then
      seen[key] = true
      n = n + redis.call("ZCARD", key)
    end
  end
  for _, name in ipairs(redis.call("SMEMBERS", KEYS[7])) do
    add(ARGV[2] .. name)
  end
  for _, set in ipairs(redis.call("ZRANGE", KEYS[8], 0, -1)) do
    if string.sub(set, 1, #ARGV[2]) == ARGV[2] then
      add(set)
    end
  end
  reply[8] = n
end
for _, id in ipairs(redis.call("LRANGE", KEYS[1], -10, -1)) do
  local f = fields(ARGV[1] .. id, "state", "pending_since")
  if f[1] == "pending" and f[2] then
    reply[#reply + 1] = f[2]
  end
end
return reply
