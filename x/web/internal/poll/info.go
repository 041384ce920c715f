package poll

import "github.com/asynq-go/asynq/x/internal/redisinfo"

// newRedis parses the INFO of one server.
func newRedis(n NodeInfo) Redis {
	i := redisinfo.Parse(n.Info)
	r := Redis{
		Version:         i["redis_version"],
		Mode:            i["redis_mode"],
		Uptime:          i.Seconds("uptime_in_seconds"),
		Memory:          i.Int("used_memory"),
		MemoryPeak:      i.Int("used_memory_peak"),
		MaxMemory:       i.Int("maxmemory"),
		MaxMemoryPolicy: i["maxmemory_policy"],
		Clients:         int(i.Int("connected_clients")),
		BlockedClients:  int(i.Int("blocked_clients")),
		OpsPerSecond:    i.Float("instantaneous_ops_per_sec"),
		Keys:            n.Keys,
		EvictedKeys:     i.Int("evicted_keys"),

		FragmentationPct: i.Fragmentation() * 100,
		SaveFailed:       i.SaveFailed(),
	}
	if v := i["valkey_version"]; v != "" {
		r.Version = "Valkey " + v // its redis_version is that of a compatible Redis
	}
	return r
}

// joinNodes combines the nodes. It returns the error of a node if all of them failed.
func joinNodes(infos []NodeInfo) (Redis, error) {
	var all Redis
	var failed error
	answered, limited, excess := 0, true, 0.0
	for _, n := range infos {
		if n.Err != nil {
			all.Nodes = append(all.Nodes, Node{Addr: n.Addr, Err: n.Err})
			failed = n.Err
			continue
		}
		r := newRedis(n)
		all.Nodes = append(all.Nodes, Node{Addr: n.Addr, Redis: r})
		if answered == 0 || r.Uptime < all.Uptime {
			all.Uptime = r.Uptime
		}
		if answered == 0 {
			all.Version, all.Mode = r.Version, r.Mode
		}
		if answered == 0 || redisinfo.Evicts(r.MaxMemoryPolicy) > redisinfo.Evicts(all.MaxMemoryPolicy) {
			all.MaxMemoryPolicy = r.MaxMemoryPolicy
		}
		answered++
		limited = limited && r.MaxMemory > 0
		excess += r.FragmentationPct * float64(r.Memory)
		all.Memory += r.Memory
		all.MemoryPeak += r.MemoryPeak
		all.MaxMemory += r.MaxMemory
		all.Clients += r.Clients
		all.BlockedClients += r.BlockedClients
		all.OpsPerSecond += r.OpsPerSecond
		all.Keys += r.Keys
		all.EvictedKeys += r.EvictedKeys
		all.SaveFailed = all.SaveFailed || r.SaveFailed
	}
	if answered == 0 {
		return all, failed
	}
	if !limited {
		all.MaxMemory = 0 // without a limit on one node, there is no total limit
	}
	if all.Memory > 0 {
		all.FragmentationPct = excess / float64(all.Memory)
	}
	return all, nil
}
