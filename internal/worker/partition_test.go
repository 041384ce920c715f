package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// The rate at which tasks end counts only while tasks remain in the queue, also if its limit allows
// no further one.
func TestEndRateOfQueue(t *testing.T) {
	t.Parallel()
	quick := slices.Repeat([]*Attempt{{Queue: "q"}}, 100_000)
	slow := []*Attempt{{Queue: "q"}, {Queue: "other"}}
	for _, tt := range []struct {
		name    string
		settled []*Attempt
		reply   rdb.Fetch
		want    bool // slow
	}{
		{"quick", quick, rdb.Fetch{N: 1, More: true}, false},
		{"slow", slow, rdb.Fetch{N: 1, More: true}, true},
		{"slow, at capacity", slow, rdb.Fetch{N: 1, Code: script.CodeCapped}, true},
		{"slow, then empty", slow, rdb.Fetch{N: 1}, false},
		{"slow, no slot", slow, rdb.Fetch{N: 0}, true},
	} {
		q := &queueState{name: "q"}
		q.countEnds(&RoundTrip{})
		q.countedAt -= int64(countPeriod)
		q.countEnds(&RoundTrip{settled: tt.settled})
		q.applyPartitions(&tt.reply, time.Now())
		if q.endsSlowly != tt.want || (q.countedAt == 0) != (tt.name == "slow, then empty") {
			t.Errorf("%s: slowly %v, counted at %d", tt.name, q.endsSlowly, q.countedAt)
		}
	}
}
