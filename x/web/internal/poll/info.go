package poll

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// infoFields iterates over the text of INFO: the section, name and value of each line.
func infoFields(text string) iter.Seq2[string, [2]string] {
	return func(yield func(string, [2]string) bool) {
		section := ""
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if name, ok := strings.CutPrefix(line, "#"); ok {
				section = strings.TrimSpace(name)
				continue
			}
			if name, value, ok := strings.Cut(line, ":"); ok && !yield(section, [2]string{name, value}) {
				return
			}
		}
	}
}

// info is INFO by name. Missing and invalid numbers are zero.
type info map[string]string

func parseInfo(text string) info {
	fields := make(info)
	for _, f := range infoFields(text) {
		fields[f[0]] = f[1]
	}
	return fields
}

func (i info) int(name string) int64 {
	n, err := strconv.ParseInt(i[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (i info) float(name string) float64 {
	f, err := strconv.ParseFloat(i[name], 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// seconds returns a bounded duration: the maximum of time.Duration is 292 years.
func (i info) seconds(name string) time.Duration {
	return time.Duration(min(max(i.int(name), 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// newRedis parses the INFO of one server.
func newRedis(n NodeInfo) Redis {
	i := parseInfo(n.Info)
	r := Redis{
		Version:         i["redis_version"],
		Mode:            i["redis_mode"],
		Uptime:          i.seconds("uptime_in_seconds"),
		Memory:          i.int("used_memory"),
		MemoryPeak:      i.int("used_memory_peak"),
		MaxMemory:       i.int("maxmemory"),
		MaxMemoryPolicy: i["maxmemory_policy"],
		Clients:         int(i.int("connected_clients")),
		BlockedClients:  int(i.int("blocked_clients")),
		OpsPerSecond:    i.float("instantaneous_ops_per_sec"),
		Keys:            n.Keys,
		EvictedKeys:     i.int("evicted_keys"),
	}
	if v := i["valkey_version"]; v != "" {
		r.Version = "Valkey " + v // its redis_version is that of a compatible Redis
	}
	if ratio := i.float("mem_fragmentation_ratio"); ratio > 0 {
		r.FragmentationPct = (ratio - 1) * 100
	}
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status, ok := i[name]; ok && status != "ok" {
			r.SaveFailed = true
		}
	}
	return r
}

// evicting returns what a policy may evict: 0 nothing, 1 some keys, 2 any key.
func evicting(policy string) int {
	switch {
	case policy == "", policy == "noeviction":
		return 0
	case strings.HasPrefix(policy, "volatile-"):
		return 1
	default:
		return 2
	}
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
		if answered == 0 || evicting(r.MaxMemoryPolicy) > evicting(all.MaxMemoryPolicy) {
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
