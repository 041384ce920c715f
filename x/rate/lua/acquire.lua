-- Acquires a token of a semaphore for a task, if one is free. A task that has a token keeps it
-- until its new deadline.
--
-- KEYS[1]  semaphore
-- ARGV[1]  task ID
-- ARGV[2]  milliseconds until the task's deadline
-- ARGV[3]  number of tokens
-- ARGV[4]  seconds to keep the key for after the last deadline
-- RETURN   1 if the task has a token, else 0
-- BOUND    the tokens in use
--
-- A token counts until the second of its deadline has passed: scores are whole seconds, rounded
-- down by all writers.
-- ZREMRANGEBYSCORE comes first: it is allowed when Redis is full, and after it all writes are.

local time = redis.call("TIME")
local now = tonumber(time[1])
local deadline = math.floor(now + tonumber(time[2]) / 1e6 + tonumber(ARGV[2]) / 1e3)
local own = redis.call("ZSCORE", KEYS[1], ARGV[1])
local held = redis.call("ZCOUNT", KEYS[1], time[1], "+inf")
local last = redis.call("ZRANGE", KEYS[1], -1, -1, "WITHSCORES")[2]
if not (own and (tonumber(own) or now) >= now) and held >= tonumber(ARGV[3]) then
  return 0
end
-- Other writers may have stored a score that is not a time.
local keep = math.min(math.max(deadline, tonumber(last or 0) or deadline) - now, 3e9) + tonumber(ARGV[4])
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", "(" .. time[1])
redis.call("ZADD", KEYS[1], string.format("%.0f", deadline), ARGV[1])
redis.call("EXPIRE", KEYS[1], string.format("%.0f", keep))
return 1
