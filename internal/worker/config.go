package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// Broker is the part of rdb.Broker that workers use.
type Broker interface {
	RoundTrip(ctx context.Context, t *rdb.RoundTrip)
	Waiting(ctx context.Context, queues []string) ([]string, error)
	PassMarker(ctx context.Context, queue string) error
	WriteResults(ctx context.Context, writes []*rdb.ResultWrite)
	WriteProgress(ctx context.Context, writes []*rdb.ResultWrite)
	ReadSteps(ctx context.Context, queue, id, token string) (*rdb.StepState, error)
	ReadStep(ctx context.Context, queue, id, field string) (string, error)
	WriteStep(ctx context.Context, w *rdb.StepWrite) error
	Extend(ctx context.Context, queue string, lease time.Duration, tasks []rdb.Held)
}

// Config configures a Pool.
type Config struct {
	Broker Broker
	Log    *slog.Logger

	Concurrency   int            // slots at the start, at least 1
	Queues        map[string]int // weight or, if Strict, priority
	Strict        bool
	MaxActive     map[string]int             // active tasks per queue, of all servers together; absent: no limit
	Partitions    map[string]*rdb.Partitions // of queues that have them
	Lease         time.Duration
	Grace         time.Duration // how long a handler keeps its slot after its context ended
	CheckInterval time.Duration // how often to check empty queues for tasks that left no marker
	TokenPrefix   string        // unique to this server
	InlineFlush   bool          // workers may make round trips; off where a test makes each one
	UnhandledFor  time.Duration // how long tasks without a handler are returned; 0: they fail
	AttemptLog    int           // failed attempts to keep in the log of a task; 0: none

	Receiver *ReceiverConfig // set if callers receive tasks instead of handlers

	Callbacks

	concurrency *atomic.Int64 // slots; nil: Concurrency
}

// slots returns the number of slots.
func (cfg *Config) slots() int {
	if cfg.concurrency == nil {
		return cfg.Concurrency
	}
	return int(cfg.concurrency.Load())
}

// ReceiverConfig is the additional configuration of a pool whose tasks are received by callers. Its
// fetchers are created on demand, when a caller first names a queue of their lane.
type ReceiverConfig struct {
	Lane      func(queue string) string     // returns the name of the queue's lane
	NewWaiter func(queue string) rdb.Waiter // for the lane of a queue
	Start     func(f *Fetcher)              // starts the loops of a fetcher
	Stop      func(f *Fetcher)              // stops them
}

// ArchivedCallback is notified of archived tasks. Its functions are internal.
type ArchivedCallback struct {
	// Call is called when Redis has confirmed that it archived the task of an attempt, with the
	// error of the attempt. It must not block.
	Call func(a *Attempt, err error)
	// Room blocks before a task is archived, until another call is welcome or ctx ends.
	Room func(ctx context.Context)
}

// Count describes an attempt that ended for statistics.
type Count struct {
	Now     time.Time
	Started bool   // it has started
	Failed  bool   // it counts as failed
	Err     string // the text of its error, if Failed
}

// Callbacks lead to user code. Each may panic, unless the field says that it is internal.
type Callbacks struct {
	BaseContext func() context.Context
	Prepare     func(a *Attempt) // internal: called before the attempt runs
	Handle      func(ctx context.Context, a *Attempt) error
	OnError     func(ctx context.Context, a *Attempt, err error) // may be nil
	IsFailure   func(err error) bool
	RetryDelay  func(a *Attempt, err error) time.Duration
	Holder      func(a *Attempt) string                  // internal: names the worker in the log of a task; set with AttemptLog
	Delayed     func(queue string, delay time.Duration)  // internal: a task of the queue waits for a retry
	MemberEnded func(queue, part string)                 // internal: a task of a part of a flow may have ended; must not block; may be nil
	Archived    *ArchivedCallback                        // may be nil
	Count       func(a *Attempt, o rdb.Outcome, c Count) // internal: counts an attempt that ended; may be nil
	Observer    *Observer                                // may be nil
}
