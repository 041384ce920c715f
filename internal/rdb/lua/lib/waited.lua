-- waited(since, now, us) returns the microseconds since a task became pending, or -1 if since is
-- not a time. A double is exact to a quarter of a microsecond here.
local function waited(since, now, us)
  local w = now * 1000000 + us - (tonumber(since or "") or 0 / 0) / 1000
  if not (w > -1e16 and w < 1e16) then
    return -1
  end
  return math.max(math.floor(w), 0) -- another host's clock may be fast
end
