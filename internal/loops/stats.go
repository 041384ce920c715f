package loops

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/script"
)

// StatsBroker is the part of rdb.Broker that a StatsWriter uses.
type StatsBroker interface {
	AddStats(ctx context.Context, sender string, batches []*rollup.Batch) []rdb.StatsReply
}

// StatsWriter writes what a Recorder has counted. Counts that Redis does not accept, because it is
// full or cannot be reached, are kept in memory and written later.
type StatsWriter struct {
	Broker   StatsBroker
	Recorder *rollup.Recorder
	Sender   string          // unique to the process
	Queues   func() []string // whose sizes are stored every minute
	Log      *slog.Logger

	mu     sync.Mutex // a flush at the shutdown may overlap with one that hangs
	failed time.Time  // when the first call failed; zero: the last one did not
	warned bool
}

// The pauses between two flushes. The longer ones are for many types: an entry costs Redis about
// 30 µs, so a server takes a thousandth of its time at most.
const (
	statsInterval    = 5 * time.Second
	statsPerEntry    = 30 * time.Millisecond
	maxStatsInterval = time.Minute
)

// keepQuiet is how long calls may fail before it is logged. Attempts whose counts cannot be written
// are rarely lost: while Redis cannot be reached, no attempt starts.
const keepQuiet = time.Minute

// Tick writes all counts.
func (w *StatsWriter) Tick(ctx context.Context) (time.Duration, error) {
	n := w.Flush(ctx, true)
	return min(max(statsInterval, time.Duration(n)*statsPerEntry), maxStatsInterval), nil
}

// Flush writes all counts, with sizes also the sizes of queues. It returns the number of entries
// that it has sent.
func (w *StatsWriter) Flush(ctx context.Context, sizes bool) (entries int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sized := make(map[string]bool)
	if sizes {
		for _, queue := range w.Queues() {
			sized[queue] = true
		}
	}
	open := w.Recorder.Pending(time.Now())
	// First what an earlier flush has left: as long as there is such a call, nothing else is sent.
	entries = w.drain(ctx, open, nil, false)
	for queue := range sized {
		if !slices.Contains(open, queue) {
			open = append(open, queue)
		}
	}
	return entries + w.drain(ctx, open, sized, true)
}

// drain sends the calls of the queues. If collect is set, they include what was counted until now.
func (w *StatsWriter) drain(ctx context.Context, open []string, sized map[string]bool, collect bool) (entries int) {
	for ; len(open) > 0 && ctx.Err() == nil; collect = false {
		var batches []*rollup.Batch
		for _, queue := range open {
			if b := w.Recorder.Next(queue, time.Now(), sized[queue], collect); b != nil {
				batches = append(batches, b)
				entries += len(b.Entries)
			}
		}
		if len(batches) == 0 {
			break
		}
		open = w.send(ctx, batches)
	}
	return entries
}

// send sends calls, and returns the queues that may have more.
func (w *StatsWriter) send(ctx context.Context, batches []*rollup.Batch) (more []string) {
	var failed error
	for i, r := range w.Broker.AddStats(ctx, w.Sender, batches) {
		switch {
		case r.Err != nil:
			failed = r.Err
		default:
			w.Recorder.SetClock(r.Now, time.Now())
			w.Recorder.Confirm(batches[i], time.Now()) // also if the queue was deleted
			more = append(more, batches[i].Queue)
		}
	}
	w.report(failed)
	return more
}

// report logs failures that last.
func (w *StatsWriter) report(err error) {
	now := time.Now()
	switch {
	case err == nil && w.warned:
		w.Log.Info("statistics are written again")
		w.failed, w.warned = time.Time{}, false
	case err == nil:
		w.failed = time.Time{}
	case w.failed.IsZero():
		w.failed = now
	case !w.warned && now.Sub(w.failed) > keepQuiet:
		w.Log.Warn("statistics not written, keeping them in memory", "error", err, "full", script.IsFull(err))
		w.warned = true
	}
	if n := w.Recorder.Dropped(); n > 0 {
		w.Log.Warn("statistics dropped, because they could not be written for too long", "attempts", n)
	}
}
