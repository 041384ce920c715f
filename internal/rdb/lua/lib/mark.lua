-- mark(marker) leaves the marker that wakes one idle server, unless one is there. The TTL is for queues that are deleted
-- by processes that do not know the key; it only has to outlive the moment between a server's fetch and its wait.
local function mark(marker)
  if redis.call("EXISTS", marker) == 0 then
    redis.call("LPUSH", marker, 1)
    redis.call("EXPIRE", marker, 60)
  end
end
