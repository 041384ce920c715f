-- count(total, daily, n, ttl) adds n attempts to a total counter and its daily counter. The total
-- restarts when it exceeds 64 bits. A key that does not hold an integer is left alone, so bad data
-- there blocks no task.
local function count(total, daily, n, ttl)
  if n == 0 then
    return
  end
  local by = string.format("%d", n)
  if redis.pcall("INCRBY", daily, by) == n then
    redis.call("EXPIRE", daily, ttl)
  end
  if type(redis.pcall("INCRBY", total, by)) ~= "number" then
    local v = redis.pcall("GET", total)
    if type(v) == "string" and (tonumber(v) or 0) > 9.2e18 then
      redis.call("SET", total, n)
    end
  end
end
