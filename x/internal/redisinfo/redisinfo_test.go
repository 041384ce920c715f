package redisinfo_test

import (
	"math"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/internal/redisinfo"
)

func TestParse(t *testing.T) {
	t.Parallel()
	f := redisinfo.Parse("# Server\r\nredis_version:8.0\r\nuptime_in_seconds:90\r\nlonger:99999999999999\r\n\r\n# Memory\r\nmem_fragmentation_ratio:1.25\r\n" +
		"bad:x\r\ninfinite:inf\r\nnegative:-5\r\nno field\r\nexecutable:/a:b\r\nrdb_last_bgsave_status:ok\r\n")
	if f["redis_version"] != "8.0" || f["executable"] != "/a:b" || f["no field"] != "" {
		t.Errorf("fields %q", f)
	}
	if f.Int("uptime_in_seconds") != 90 || f.Int("bad") != 0 || f.Int("missing") != 0 || f.Float("infinite") != 0 || f.Float("bad") != 0 {
		t.Errorf("numbers of %q", f)
	}
	if f.Seconds("uptime_in_seconds") != 90*time.Second || f.Seconds("negative") != 0 || f.Seconds("longer") < math.MaxInt64/2 {
		t.Errorf("durations of %q", f)
	}
	if f.Fragmentation() != 0.25 || redisinfo.Parse("").Fragmentation() != 0 {
		t.Errorf("fragmentation %v", f.Fragmentation())
	}
	if f.SaveFailed() || !redisinfo.Parse("aof_last_write_status:err").SaveFailed() {
		t.Error("wrong outcome of the last save")
	}
	sections := map[string]string{}
	for section, field := range redisinfo.Lines("a:1\n# One\nb:2\n#Two\nc:3\n") {
		sections[field[0]] = section
	}
	if sections["a"] != "" || sections["b"] != "One" || sections["c"] != "Two" {
		t.Errorf("sections %q", sections)
	}
}

func TestEvicts(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int{
		"": redisinfo.EvictsNothing, "noeviction": redisinfo.EvictsNothing, "volatile-lru": redisinfo.EvictsSome, "allkeys-lru": redisinfo.EvictsAny,
	} {
		if got := redisinfo.Evicts(policy); got != want {
			t.Errorf("%q evicts %d, want %d", policy, got, want)
		}
	}
}
