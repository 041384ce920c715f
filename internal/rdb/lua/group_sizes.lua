-- Counts the tasks of groups, or of aggregation sets.
--
-- KEYS[1..]  the group, for each one
-- RETURN     for each one: how many tasks it holds, or -1 if its key is of another type
-- BOUND      500 groups

local reply = {}
for i = 1, #KEYS do
  local n = redis.pcall("ZCARD", KEYS[i])
  if type(n) ~= "number" then
    redis.call("EXISTS", KEYS[i]) -- raises where the key is not served here now
    n = -1
  end
  reply[i] = n
end
return reply
