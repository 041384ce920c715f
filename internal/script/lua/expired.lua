-- expired(lease, id, now) returns whether the task's lease has expired. A missing lease counts as
-- expired.
local function expired(lease, id, now)
  local score = tonumber(redis.call("ZSCORE", lease, id) or 0)
  return score < now
end
