-- precedes(a, b) compares bytes, as sorted sets do among equal scores. The < of Lua depends on the
-- locale.
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- position(set, score, member) returns the number of entries before (score, member) in a sorted
-- set, and 1 if the entry exists, else 0. If it does not exist, a bisection among the entries with
-- its score finds its former position.
local function position(set, score, member)
  if redis.call("ZSCORE", set, member) == score then
    return redis.call("ZRANK", set, member), 1
  end
  local low = redis.call("ZCOUNT", set, "-inf", "(" .. score)
  local high = low + redis.call("ZCOUNT", set, score, score)
  while low < high do
    local mid = math.floor((low + high) / 2)
    if precedes(redis.call("ZRANGE", set, mid, mid)[1], member) then
      low = mid + 1
    else
      high = mid
    end
  end
  return low, 0
end
