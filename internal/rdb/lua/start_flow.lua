-- Creates a flow, unless its ID is in use.
--
-- KEYS[1]   the flow
-- KEYS[2]   its plan
-- ARGV[1]   the encoded plan
-- ARGV[2]   TTL in seconds
-- ARGV[3..] for each field: name, value
-- RETURN    OK or CONFLICT; ALREADY if an earlier attempt of the call created the flow
-- BOUND     1,000 nodes
-- include: codes

local fields, run = {}, nil
local a = 3
while a < #ARGV do
  fields[a - 2], fields[a - 1] = ARGV[a], ARGV[a + 1]
  run = fields[a - 2] == "run" and fields[a - 1] or run
  a = a + 2
end
if redis.call("EXISTS", KEYS[1]) == 1 then
  return redis.call("HGET", KEYS[1], "run") == run and ALREADY or CONFLICT
end
redis.call("SET", KEYS[2], ARGV[1], "EX", ARGV[2])
redis.call("HSET", KEYS[1], "version", 1)
for i = 1, #fields, 1000 do
  redis.call("HSET", KEYS[1], unpack(fields, i, math.min(i + 999, #fields)))
end
redis.call("EXPIRE", KEYS[1], ARGV[2])
return OK
