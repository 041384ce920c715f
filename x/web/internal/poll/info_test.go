package poll

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

const infoText = "# Server\r\nredis_version:7.4.1\r\nredis_mode:cluster\r\nuptime_in_seconds:3600\r\n" +
	"# Clients\r\nconnected_clients:12\r\nblocked_clients:3\r\n" +
	"# Memory\r\nused_memory:1000\r\nused_memory_peak:2000\r\nmaxmemory:4000\r\nmaxmemory_policy:noeviction\r\nmem_fragmentation_ratio:1.50\r\n" +
	"# Persistence\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:ok\r\n" +
	"# Stats\r\ninstantaneous_ops_per_sec:50\r\nevicted_keys:4\r\n" +
	"# Keyspace\r\ndb0:keys=12,expires=3,avg_ttl=1500\r\ndb5:keys=1,expires=0,avg_ttl=0\r\n"

func TestInfo(t *testing.T) {
	t.Parallel()
	want := Redis{
		Version: "7.4.1", Mode: "cluster", Uptime: time.Hour, Memory: 1000, MemoryPeak: 2000, MaxMemory: 4000, MaxMemoryPolicy: "noeviction",
		Clients: 12, BlockedClients: 3, OpsPerSecond: 50, Keys: 9, FragmentationPct: 50, EvictedKeys: 4,
	}
	wantEqual(t, "one node", fmt.Sprintf("%+v", newRedis(NodeInfo{Info: infoText, Keys: 9})), fmt.Sprintf("%+v", want))

	other := "redis_version:7.4.1\nuptime_in_seconds:60\nused_memory:3000\nmaxmemory:0\nmaxmemory_policy:allkeys-lru\nmem_fragmentation_ratio:1.1\nrdb_last_bgsave_status:err\n"
	all, err := joinNodes([]NodeInfo{{Addr: "a", Info: infoText, Keys: 9}, {Addr: "b", Err: errDown}, {Addr: "c", Info: other, Keys: 1}})
	if err != nil || len(all.Nodes) != 3 || !errors.Is(all.Nodes[1].Err, errDown) || all.Nodes[2].Redis.Memory != 3000 {
		t.Fatalf("%+v, %v", all, err)
	}
	if all.Memory != 4000 || all.MaxMemory != 0 || all.MaxMemoryPolicy != "allkeys-lru" || all.Uptime != time.Minute || all.Keys != 10 ||
		!all.SaveFailed || all.FragmentationPct < 19.9 || all.FragmentationPct > 20.1 || all.Clients != 12 || all.Mode != "cluster" {
		t.Errorf("together: %+v", all)
	}
	if _, err := joinNodes([]NodeInfo{{Addr: "b", Err: errDown}}); !errors.Is(err, errDown) {
		t.Errorf("no node could be asked: %v", err)
	}
}

func TestOddInfo(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\r\n", "#", "# \n:\n::\n", "used_memory:", "used_memory:x\nmem_fragmentation_ratio:NaN\nuptime_in_seconds:-5", "no colon"} {
		wantEqual(t, fmt.Sprintf("%q", text), fmt.Sprintf("%+v", newRedis(NodeInfo{Info: text})), fmt.Sprintf("%+v", Redis{}))
	}
	if r := newRedis(NodeInfo{Info: "uptime_in_seconds:9223372036854775807\nredis_version:7.2.4\nvalkey_version:8.0.1"}); r.Uptime <= 0 || r.Version != "Valkey 8.0.1" {
		t.Errorf("%+v", r)
	}
}
