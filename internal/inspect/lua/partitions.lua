-- Lists partitions that have held or active tasks, by key.
--
-- KEYS[1]  partitions:held
-- KEYS[2]  partitions:running
-- KEYS[3]  partitions:blocked
-- KEYS[4]  partitions:settings
-- ARGV[1]  prefix of the task keys
-- ARGV[2]  the bound of the first member, as of ZRANGEBYLEX
-- ARGV[3]  maximum number of partitions; one more than the last page is not read
-- ARGV[4]  1 to read only the partition ARGV[5], whether it has tasks or not, else 0
-- ARGV[5]  its key
-- RETURN   {unix nanoseconds now, then for each partition: key, held tasks, active tasks,
--          pending_since of its first held task or false, score of KEYS[3] or false, settings or
--          false}
-- BOUND    ARGV[3], at most 200
-- include: fields clock position

local now, us = clock()
local reply = { nanoseconds(now, us) }

-- first(set, from) returns the key of the first member from a bound on, or nil.
local function first(set, from)
  local member = redis.call("ZRANGEBYLEX", set, from, "+", "LIMIT", "0", "1")[1]
  return member and string.sub(member, 1, (string.find(member, "\0", 1, true) or 0) - 1)
end

local function add(key)
  local from, to = "[" .. key .. "\0", "(" .. key .. "\1"
  local held, since = redis.call("ZLEXCOUNT", KEYS[1], from, to), false
  if held > 0 then
    local member = redis.call("ZRANGEBYLEX", KEYS[1], from, to, "LIMIT", "0", "1")[1]
    since = fields(ARGV[1] .. string.sub(member, #key + 18), "pending_since")[1] or false
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = key, held, redis.call("ZLEXCOUNT", KEYS[2], from, to), since
  reply[n + 5] = redis.call("ZSCORE", KEYS[3], key) or false
  reply[n + 6] = redis.call("HGET", KEYS[4], key) or false
end

if ARGV[4] == "1" then
  add(ARGV[5])
  return reply
end
local from = ARGV[2]
for _ = 1, tonumber(ARGV[3]) do
  local a, b = first(KEYS[1], from), first(KEYS[2], from)
  local key = a or b
  if a and b and precedes(b, a) then
    key = b
  end
  if not key then
    break
  end
  add(key)
  from = "[" .. key .. "\1"
end
return reply
