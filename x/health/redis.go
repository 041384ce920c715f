package health

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Node is the state of one Redis server, as far as rules depend on it. Fields that are not
// reported, such as most fields of an embedded Redis, are zero.
type Node struct {
	Addr string
	Err  error // why the server could not be read

	Version         string // empty: an embedded Redis
	Memory          int64  // bytes used
	MaxMemory       int64  // 0: no limit
	MaxMemoryPolicy string
	EvictedKeys     int64   // since Redis started
	Fragmentation   float64 // memory of the system beyond the used memory, as a share of that
	SaveFailed      bool    // the last snapshot or write to the append-only file failed

	AppendOnly bool      // the append-only file is on
	Replicas   int       // connected replicas
	Unsaved    int64     // changes since the last snapshot
	SavedAt    time.Time // when the last snapshot was made, or Redis started; by its clock
}

// ParseNode returns the state of a Redis server from its reply to INFO. Numbers that are missing or
// invalid are zero.
func ParseNode(addr, info string) Node {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	integer := func(name string) int64 {
		n, err := strconv.ParseInt(fields[name], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	n := Node{
		Addr: addr, Version: fields["redis_version"],
		Memory: integer("used_memory"), MaxMemory: integer("maxmemory"), MaxMemoryPolicy: fields["maxmemory_policy"],
		EvictedKeys: integer("evicted_keys"), AppendOnly: integer("aof_enabled") == 1,
		Replicas: int(integer("connected_slaves")), Unsaved: integer("rdb_changes_since_last_save"),
	}
	if at := integer("rdb_last_save_time"); at > 0 {
		n.SavedAt = time.Unix(at, 0)
	}
	if ratio, err := strconv.ParseFloat(fields["mem_fragmentation_ratio"], 64); err == nil && ratio > 0 && !math.IsInf(ratio, 0) {
		n.Fragmentation = ratio - 1
	}
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status, ok := fields[name]; ok && status != "ok" {
			n.SaveFailed = true
		}
	}
	return n
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
