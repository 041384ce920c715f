-- Counts the tasks of groups, or of aggregation sets, and tells the lowest score of each.
--
-- KEYS[1..]  the group, for each one
-- RETURN     for each one: how many tasks it holds, or -1 if its key is of another type, and the lowest score or false
-- BOUND      500 groups

local reply = {}
for i = 1, #KEYS do
  local n, first = redis.pcall("ZCARD", KEYS[i]), false
  if type(n) ~= "number" then
    redis.call("EXISTS", KEYS[i]) -- raises where the key is not served here now
    n = -1
  elseif n > 0 then
    first = redis.call("ZRANGE", KEYS[i], 0, 0, "WITHSCORES")[2] or false
  end
  reply[2 * i - 1], reply[2 * i] = n, first
end
return reply
