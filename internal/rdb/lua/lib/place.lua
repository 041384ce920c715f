-- precedes(a, b) compares bytes, as sorted sets do among equal scores. The < of Lua asks the locale.
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- place(set, score, member) says how many entries come before (score, member) in the order of a sorted set, and whether that entry
-- is there: 1 or 0. If it is gone, the place where it was is found by bisection among the entries with its score.
local function place(set, score, member)
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
