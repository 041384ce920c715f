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
	Token   string // of the fetch that took the task
	Retried int    // failed attempts before this one
	Value   any    // the public package's own, set before the handler runs
	Lease   any    // the public package's own, set with Value, where tasks are taken by hand

	Started  time.Time
	Wait     time.Duration // in pending; less than 0 if that is not known; only for an Observer
	Deadline time.Time     // when the context ends; zero until the handler runs

	pump     *Pump
	number   uint64 // in the order of the fetches
	index    int    // in the pump's list of open attempts; noIndex where it is not in it
	progress atomic.Int32
	leased   int64        // when its fetch was sent, as uptime
	extended atomic.Int64 // when its lease was last extended, as uptime; 0: it was not
	endedAt  atomic.Int64 // when its context was canceled, as uptime; 0: it was not
	lost     atomic.Bool  // Redis said that another holds the task now
	lossTold atomic.Bool  // to the Observer
	fate     atomic.Int32 // a wire.Fate: what whoever canceled it wants to become of the task

	context    taskContext
	stack      []byte // where the handler called runtime.Goexit
	settlement rdb.Settlement
	tries      int // of the settlement

	expires  atomic.Int64  // when its lease ends, as uptime; where tasks are taken by hand, and 0 if that is not known
	answered chan struct{} // closed when Redis has answered for the settlement; nil unless tasks are taken by hand
}

// The progress of an attempt. Whoever moves it on from running decides its outcome: the handler's goroutine, the watch over stuck
// handlers, or the shutdown.
const (
	running int32 = iota
	decided
)

// decide claims the right to settle the attempt; only the first caller gets it.
func (a *Attempt) decide() bool { return a.progress.CompareAndSwap(running, decided) }

// started is the moment that uptime counts from.
var started = time.Now()

// uptime is a moment as the nanoseconds since the process started, which no change of the wall clock moves. It is never 0.
func uptime() int64 { return max(int64(time.Since(started)), 1) }

// since returns how long ago a moment of uptime was.
func since(at int64) time.Duration { return time.Duration(uptime() - at) }

// leaseAge returns how long ago the lease was set or extended last.
func (a *Attempt) leaseAge() time.Duration {
	if at := a.extended.Load(); at != 0 {
		return since(at)
	}
	return since(a.leased)
}

// Cancel ends the attempt's context with a cause.
func (a *Attempt) Cancel(cause error) {
	a.endedAt.CompareAndSwap(0, uptime())
	a.context.cancel(cause)
}
