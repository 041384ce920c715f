-- Tells which tick of a scheduler entry was the last one that is over, and says so of further ones.
--
-- KEYS[1]  record of the entry's last tick
-- ARGV[1]  unix milliseconds: where there is no record, ticks up to here are over
-- ARGV[2]  unix milliseconds: ticks up to here are over in any case
-- ARGV[3]  seconds to keep the record for
-- RETURN   the record: unix milliseconds of the tick, its answer, and when that was given, with colons between. The last two are
--          empty where no task was made or refused for it.
-- BOUND    one record
--
-- EXPIRE comes first: it works when Redis is full, and then all others do.
redis.call("EXPIRE", KEYS[1], ARGV[3])
local record = redis.call("GET", KEYS[1]) or ""
local last = string.match(record, "^(%d+):%d*:%d*$")
local over = ARGV[2]
if not last and tonumber(over) < tonumber(ARGV[1]) then
  over = ARGV[1]
end
if not last or tonumber(last) < tonumber(over) then
  record = over .. "::"
  redis.call("SET", KEYS[1], record, "EX", ARGV[3])
end
return record
