package worker

import (
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Attempt is one attempt to process a task, from its fetch until it is settled.
type Attempt struct {
	Message *wire.TaskMessage
	Queue   string
	Token   string // of the fetch that returned the task
	Retried int    // failed attempts before this one
	Value   any    // owned by the public package; set before the handler runs
	Lease   any    // owned by the public package; set with Value, only with a receiver

	Started  time.Time
	Wait     time.Duration // time in pending; negative if unknown
	Deadline time.Time     // when the context ends; zero before the handler runs

	fetcher       *Fetcher
	number        uint64       // in the order of the fetches
	index         int          // in lane.open; noIndex if not in it
	expires       atomic.Int64 // when its lease ends unless it is extended, as uptime; 0: unknown
	canceledAt    atomic.Int64 // when its context was canceled, as uptime; 0: never
	status        atomic.Int32 // running or decided
	lost          atomic.Bool  // Redis reported that the lease is no longer held
	lossReported  atomic.Bool  // to the Observer
	cancelOutcome atomic.Int32 // a wire.CancelOutcome: the outcome requested with the cancellation

	context    taskContext
	stack      []byte                 // of a handler that called runtime.Goexit
	result     atomic.Pointer[result] // nil: none was written
	report     atomic.Pointer[report] // nil: no progress was reported
	steps      atomic.Pointer[Steps]  // nil: its handler has used none
	settlement rdb.Settlement
	tries      int // of the settlement

	replied chan struct{} // closed when Redis replied to the settlement; nil without a receiver
}

// The status of an attempt. The first to move it from running to decided determines the outcome:
// the handler's goroutine, the check for stuck handlers, or the shutdown.
const (
	running int32 = iota
	decided
)

// decide claims the right to settle the attempt. It reports true only for the first caller.
func (a *Attempt) decide() bool {
	if !a.status.CompareAndSwap(running, decided) {
		return false
	}
	a.settlement.Result = a.takeResult()
	if progress := a.takeProgress(); progress != nil {
		a.settlement.Extra = &rdb.Extra{Progress: progress}
	}
	return true
}

// started is the origin of uptime.
var started = time.Now()

// uptime returns the nanoseconds since the process started. It is monotonic and never 0.
func uptime() int64 { return max(int64(time.Since(started)), 1) }

// since returns the time since a value of uptime.
func since(at int64) time.Duration { return time.Duration(uptime() - at) }

// mustSettle reports whether the pool has to settle the attempt, and so extends its lease until
// then. A lease that a caller of Receive holds may outlive the pool.
func (a *Attempt) mustSettle() bool { return a.replied == nil || a.status.Load() != running }

// canWait reports whether the outcome can be sent a moment later: no caller waits for it, and no
// other task.
func (a *Attempt) canWait() bool {
	s := &a.settlement
	return s.Outcome == rdb.Done && s.Lock == "" && s.Member == nil && a.replied == nil
}

// Broker returns the broker of the worker.
func (a *Attempt) Broker() Broker { return a.fetcher.cfg.Broker }

// Cancel ends the attempt's context with a cause.
func (a *Attempt) Cancel(cause error) {
	a.canceledAt.CompareAndSwap(0, uptime())
	a.context.cancel(cause)
}
