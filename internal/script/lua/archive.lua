-- trim(archived, prefix, now, size, age, n) deletes the oldest tasks that exceed the archive's size
-- or age in seconds, at most n, each with its hash and lock. It returns the number of IDs removed,
-- and the number of tasks deleted because the archive was full.
local function trim(archived, prefix, now, size, age, n)
  local over = math.min(redis.call("ZCARD", archived) - size, n)
  local ids = redis.call("ZRANGEBYSCORE", archived, "-inf", now - age, "LIMIT", 0, n)
  if over > #ids then
    ids = redis.call("ZRANGE", archived, 0, over - 1)
  end
  local out, tasks = purge(archived, prefix, ids, "archived")
  return out, math.max(0, math.min(over, tasks))
end
