-- mark(marker) sets the wake marker, which wakes one idle server, unless it is set. The TTL is for
-- queues deleted by processes that do not know the key; it only has to outlast the moment between a
-- server's fetch and its wait.
--
-- On a Cluster, servers cannot block on the markers of queues in many slots, so the script
-- announces the marker on the channel PREFIX:wake. Without the permission to publish, servers poll.
local function mark(marker)
  if redis.call("EXISTS", marker) == 0 then
    redis.call("LPUSH", marker, 1)
    redis.call("EXPIRE", marker, 60)
    -- cluster: redis.pcall("PUBLISH", string.match(marker, "^[^{]*") .. "wake", marker)
  end
end
