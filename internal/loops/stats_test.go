package loops

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rollup"
)

// lossyStats is a StatsBroker that counts attempts, and loses replies.
type lossyStats struct {
	lose     int // replies to lose
	numbers  map[uint64]bool
	attempts int64
}

func (b *lossyStats) AddStats(_ context.Context, _ string, batches []*rollup.Batch) []rdb.StatsReply {
	replies := make([]rdb.StatsReply, len(batches))
	for i, batch := range batches {
		if !b.numbers[batch.Number] {
			b.numbers[batch.Number] = true
			for _, e := range batch.Entries {
				if e.Table == rollup.TypeTable {
					b.attempts += e.Stats.Counts[rollup.Succeeded]
				}
			}
		}
		replies[i].Now = time.Now().UnixMilli()
		if b.lose > 0 {
			b.lose--
			replies[i].Err = errors.New("connection lost")
		}
	}
	return replies
}

// The last flush of a server writes what it has counted since a flush whose reply was lost.
func TestFlushAfterLostReply(t *testing.T) {
	t.Parallel()
	b := &lossyStats{lose: 1, numbers: make(map[uint64]bool)}
	w := &StatsWriter{
		Broker: b, Recorder: rollup.NewRecorder(func(string) string { return "" }), Sender: "s", Log: slog.New(slog.DiscardHandler),
		Queues: func() []string { return nil },
	}
	record := func(n int) {
		for range n {
			w.Recorder.Record(time.Now(), &rollup.Attempt{Queue: "q", Type: "t", Outcome: rollup.Succeeded, Duration: time.Second, Wait: -1})
		}
	}
	record(4)
	w.Flush(t.Context(), false)
	record(16)
	w.Flush(t.Context(), false)
	if b.attempts != 20 {
		t.Errorf("%d attempts are written, want 20", b.attempts)
	}
}
