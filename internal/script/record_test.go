package script_test

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// A skipped number makes the script renew the TTL of the record. No number is 1.
func TestSequence(t *testing.T) {
	q := rdb.New(nil, "").Queue("q")
	now := time.Unix(1_700_000_000, 0)
	first, second := q.AcquireSequence(), q.AcquireSequence()
	if first.Record == second.Record {
		t.Errorf("two sequences in use share the record %v", first.Record)
	}
	for i, tt := range []struct {
		after time.Duration
		want  uint64
	}{{0, 2}, {29 * time.Second, 3}, {30 * time.Second, 5}, {59 * time.Second, 6}, {61 * time.Second, 8}} {
		if got := first.Next(now.Add(tt.after)); got != tt.want {
			t.Errorf("call %d after %v: number %d, want %d", i, tt.after, got, tt.want)
		}
	}
	q.ReleaseSequence(t.Context(), first)
	if again := q.AcquireSequence(); again.Next(now) != 9 {
		t.Error("a released sequence does not continue")
	}
}
