-- clock() returns the time of Redis: unix seconds, and microseconds within the second.
local function clock()
  local t = redis.call("TIME")
  return tonumber(t[1]), tonumber(t[2])
end

-- nanoseconds(now, us) formats the results of clock() as unix nanoseconds in decimal. A Lua number
-- would lose the last digits.
local function nanoseconds(now, us)
  return string.format("%d%06d000", now, us)
end
