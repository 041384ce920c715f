-- clock() tells the time of Redis: whole unix seconds, microseconds within the second, and unix nanoseconds as a decimal
-- string, because a Lua number would lose its last digits.
local function clock()
  local t = redis.call("TIME")
  local us = tonumber(t[2])
  return tonumber(t[1]), us, t[1] .. string.format("%06d000", us)
end
