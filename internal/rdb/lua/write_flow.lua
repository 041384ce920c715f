-- Writes fields of a flow, unless it has changed since the caller read it.
--
-- KEYS[1]   the flow
-- KEYS[2]   its plan
-- ARGV[1]   the version that the caller has read
-- ARGV[2]   TTL in seconds
-- ARGV[3..] for each field: name, value
-- RETURN    OK, CHANGED, or GONE if there is no such flow
-- BOUND     1,000 nodes
-- include: codes

local version = redis.call("HGET", KEYS[1], "version")
if not version then
  return GONE
elseif version ~= ARGV[1] then
  return CHANGED
end
local fields = {}
local a = 3
while a < #ARGV do
  fields[a - 2], fields[a - 1] = ARGV[a], ARGV[a + 1]
  a = a + 2
end
for i = 1, #fields, 1000 do
  redis.call("HSET", KEYS[1], unpack(fields, i, math.min(i + 999, #fields)))
end
redis.call("HINCRBY", KEYS[1], "version", 1)
redis.call("EXPIRE", KEYS[1], ARGV[2])
redis.call("EXPIRE", KEYS[2], ARGV[2])
return OK
