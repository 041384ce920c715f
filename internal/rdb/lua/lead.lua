-- Asks for the lead of a scheduler group: goes on with it, takes it where nobody has it, or tells who leads for how long.
--
-- KEYS[1]  scheduler group
-- ARGV[1]  who asks
-- ARGV[2]  length of a lease in milliseconds
-- ARGV[3]  seconds to remember the group for
-- RETURN   {1 if the caller leads, else 0, unix milliseconds now, when the lease of who leads ends,
--          when the term of who leads began, for how long nobody had led then or -1 if that is not known}
--          All in milliseconds.
-- BOUND    one group
--
-- A term begins with its first lease and lasts as long as leases follow each other without a gap. A repeated call tells the same of it.
-- EXPIRE comes first: it works when Redis is full, and then all others do.
-- include: clock

local f = redis.call("HMGET", KEYS[1], "leader", "until", "began", "vacant")
local leader, expiry, began, vacant = f[1] or "", tonumber(f[2]), tonumber(f[3] or 0), tonumber(f[4] or -1)
local now, us = clock()
local now_ms = now * 1000 + math.floor(us / 1000)
local held = leader ~= "" and expiry and expiry >= now_ms
if held and leader ~= ARGV[1] then
  return { 0, now_ms, expiry, began, vacant }
end
if not held then
  began = now_ms
  vacant = expiry and math.max(now_ms - expiry, 0) or -1
end
expiry = now_ms + tonumber(ARGV[2])
redis.call("EXPIRE", KEYS[1], ARGV[3])
redis.call("HSET", KEYS[1], "leader", ARGV[1], "until", string.format("%.0f", expiry),
  "began", string.format("%.0f", began), "vacant", string.format("%.0f", vacant))
redis.call("EXPIRE", KEYS[1], ARGV[3])
return { 1, now_ms, expiry, began, vacant }
