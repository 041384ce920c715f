-- count(total, daily, n, ttl) adds n attempts to a counter and to its counter of the day. The total starts again past the
-- largest 64-bit integer; a counter that holds something else is left alone, so that bad data there holds up no task.
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
