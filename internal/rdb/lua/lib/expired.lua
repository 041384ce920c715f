-- expired(lease, id, now) says whether the task's lease has ended. No lease at all counts as ended.
local function expired(lease, id, now)
  local score = tonumber(redis.call("ZSCORE", lease, id) or 0)
  return score < now
end
