package health

import (
	"time"

	"github.com/asynq-go/asynq/x/internal/redisinfo"
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
	f := redisinfo.Parse(info)
	n := Node{
		Addr: addr, Version: f["redis_version"],
		Memory: f.Int("used_memory"), MaxMemory: f.Int("maxmemory"), MaxMemoryPolicy: f["maxmemory_policy"],
		EvictedKeys: f.Int("evicted_keys"), AppendOnly: f.Int("aof_enabled") == 1,
		Replicas: int(f.Int("connected_slaves")), Unsaved: f.Int("rdb_changes_since_last_save"),
		Fragmentation: f.Fragmentation(), SaveFailed: f.SaveFailed(),
	}
	if at := f.Int("rdb_last_save_time"); at > 0 {
		n.SavedAt = time.Unix(at, 0)
	}
	return n
}
