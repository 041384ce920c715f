-- addMany(call, key, pairs) adds 500 members or fewer, given with their scores, to a sorted set. It
-- returns what ZADD returns. call is redis.call or, for an error as the result, redis.pcall.
--
-- Redis keeps a small sorted set as an array, in which each addition moves others. With 16 members
-- or more, the first one is longer than an array permits, so the set becomes a skip list. It is not
-- UTF-8, so no task has this ID.
local function addMany(call, key, pairs)
  if #pairs < 32 then
    return call("ZADD", key, unpack(pairs))
  end
  local long = string.rep("\255", 65)
  local added = call("ZADD", key, "0", long, unpack(pairs))
  if type(added) == "number" then
    redis.call("ZREM", key, long)
  end
  return added
end
