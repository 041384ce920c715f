package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// Broker is what the workers need of rdb.Broker.
type Broker interface {
	Turn(ctx context.Context, t *rdb.Turn)
	Waiting(ctx context.Context, queues []string) ([]string, error)
	PassMarker(ctx context.Context, queue string) error
	Extend(ctx context.Context, queue string, lease time.Duration, tasks []rdb.Held)
}

// Waiter is what a pump needs of rdb.Waiter.
type Waiter interface {
	Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error)
	Rouse(ctx context.Context) error
	Close()
}

// Config says what to run, and how.
type Config struct {
	Broker Broker
	Log    *slog.Logger

	Concurrency   int            // slots, at least 1
	Queues        map[string]int // weight or, if Strict, priority
	Strict        bool
	MaxActive     map[string]int // per queue, on all servers together; none: any number
	Lease         time.Duration
	Grace         time.Duration // how long a handler keeps its slot after its context ended
	CheckInterval time.Duration // how often to look for tasks from processes that leave no marker
	TokenPrefix   string        // unique to this server
	WorkersLead   bool          // workers make turns, too: off where a test makes each

	Hand *HandConfig // set where tasks are taken by hand, and nobody handles them

	Callbacks
}

// HandConfig is what a pool needs whose tasks are taken by hand: queues can be any, and their pumps begin when they are named first.
type HandConfig struct {
	Lane      func(queue string) string // names the queue's lane
	NewWaiter func(queue string) Waiter // for the lane of a queue
	Begin     func(p *Pump)             // lets the loops of a pump run
}

// Callbacks lead to the user's code. Each may panic.
type Callbacks struct {
	BaseContext func() context.Context
	Prepare     func(a *Attempt) // before the attempt is given to a worker; not user code
	Handle      func(ctx context.Context, a *Attempt) error
	OnError     func(ctx context.Context, a *Attempt, err error) // may be nil
	IsFailure   func(err error) bool
	RetryDelay  func(a *Attempt, err error) time.Duration
	Delayed     func(queue string, delay time.Duration) // a task waits for a retry in a queue; not user code
	Observer    *Observer                               // may be nil
}
