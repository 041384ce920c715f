-- Forgets a scheduler group, unless somebody leads it.
--
-- KEYS[1]  scheduler group
-- RETURN   1, or 0 if somebody leads
-- BOUND    one group
--
-- A group that is not known is forgotten already.
-- include: clock

local f = redis.call("HMGET", KEYS[1], "leader", "until")
local expiry = tonumber(f[2])
local now, us = clock()
if (f[1] or "") ~= "" and expiry and expiry >= now * 1000 + math.floor(us / 1000) then
  return 0
end
redis.call("DEL", KEYS[1])
return 1
