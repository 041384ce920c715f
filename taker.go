package asynq

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Taker takes tasks from queues by hand, for those who process them without a Handler: a service that hands tasks over to workers in
// other languages, or a program with a rhythm of its own. What it takes is a Lease: the holder extends it while it works, and settles it in
// the end. Leases are not the Taker's: any Taker on the same Redis extends and settles them, given queue, ID and token, and a
// shutdown leaves them as they are.
//
// A Taker also does what a Server does besides running handlers, for the queues of TakerConfig.Queues: tasks become pending when they are
// due, those whose lease has ended are tried again, completed tasks go when their retention is over. It is listed among the servers,
// and the leases that it knows of as their workers. Groups are left to servers. A Taker is safe for concurrent use.
type Taker struct {
	base *Server
}

// TakerConfig says how a Taker works. The zero value of a field stands for its default, and so does what is below zero.
type TakerConfig struct {
	// Queues are the queues to look after, and their weights, as in Config.Queues; Take takes from other queues, too, with weight 1. SetQueues
	// changes them. Default: {"default": 1}.
	Queues map[string]int

	// StrictPriority lets a Take of several queues get tasks of a queue only if those with a higher weight are empty.
	StrictPriority bool

	// QueueConcurrency is how many tasks of a queue may be active at the same time, as in Config. SetQueues changes it.
	QueueConcurrency map[string]int

	// LeaseDuration is how long a lease lasts from when it is taken or extended, in whole seconds rounded up. A holder that is silent
	// for longer loses the task. Default: 30 s.
	LeaseDuration time.Duration

	// TaskCheckInterval, DelayedTaskCheckInterval, JanitorInterval and JanitorBatchSize are as in Config.
	TaskCheckInterval        time.Duration
	DelayedTaskCheckInterval time.Duration
	JanitorInterval          time.Duration
	JanitorBatchSize         int

	// RetryDelayFunc, IsFailure and ErrorHandler are asked about, and told of, attempts that fail, as in Config.
	RetryDelayFunc RetryDelayFunc
	IsFailure      func(error) bool
	ErrorHandler   ErrorHandler

	// Logger, LogLevel and Namespace are as in Config.
	Logger    Logger
	LogLevel  LogLevel
	Namespace string

	// ShutdownTimeout is how long Shutdown waits for outcomes that are on their way to Redis. Default: 8 s.
	ShutdownTimeout time.Duration

	// Observer is told of leases as of a server's attempts: they start when Take returns them, and end when they are settled here.
	Observer *Observer
}

// NewTaker returns a Taker that connects as r says. It panics if r cannot make a connection, or if cfg is invalid; whether Redis
// answers is not known before Ping.
func NewTaker(r RedisConnOpt, cfg TakerConfig) *Taker { return newTaker(connect(r), cfg) }

// NewTakerFromRedisClient returns a Taker on a connection that stays the caller's to close. It panics if c is nil, or cfg is invalid.
func NewTakerFromRedisClient(c redis.UniversalClient, cfg TakerConfig) *Taker {
	return newTaker(connectShared(c), cfg)
}

// Ping asks Redis for a sign of life. It returns ErrTakerClosed after Shutdown.
func (t *Taker) Ping() error { return errNotYet }

// Start lets the Taker work, and returns at once. It fails if the Taker was started before, and with ErrTakerClosed after Shutdown.
func (t *Taker) Start() error { return errNotYet }

// Shutdown ends the Taker: each Take that waits returns ErrTakerClosed, and outcomes that are on their way to Redis get there, for up to
// TakerConfig.ShutdownTimeout. Leases stay with their holders, to be extended and settled by another Taker. It is safe to call at any
// time and more than once.
func (t *Taker) Shutdown() {}

// ShutdownContext is Shutdown with ctx in place of the ShutdownTimeout. The error says what could not be ended in order.
func (t *Taker) ShutdownContext(ctx context.Context) error { return errNotYet }

// SetQueues puts others in the place of TakerConfig.Queues and QueueConcurrency, while the Taker works. Leases stay as they are, and so
// does what waits in Take.
func (t *Taker) SetQueues(queues, concurrency map[string]int) error { return errNotYet }

// Take waits until one of the queues has tasks, and takes up to n of them, at most 500, oldest first in each queue. Without queues, it
// takes from those of the Taker. No task leaves its queue unless a Take waits for it. Where several wait for a queue, the one that came first
// gets tasks first. Of several queues with tasks, each gives a share in proportion to its weight.
//
// When ctx ends first, Take returns its error, and what was taken for it goes back to the front of its queue. While Redis cannot be
// reached, Take waits. The error is ErrTakerClosed after Shutdown.
func (t *Taker) Take(ctx context.Context, n int, queues ...string) ([]*Lease, error) {
	return nil, errNotYet
}

// Lease returns the lease that somebody holds under this token: to be extended or settled here, wherever it was taken. It asks nobody, so
// whether there is such a lease is only known then. What this Taker has taken itself it returns with its task.
func (t *Taker) Lease(queue, id, token string) *Lease { return nil }

// Settlement says how one lease ends: with success, unless Err or Release is set.
type Settlement struct {
	Lease   *Lease
	Result  []byte // as for Lease.Done
	Err     error  // as for Lease.Fail; it counts before Release
	Release bool   // as Lease.Release
}

// Settle ends many leases in few round trips. It returns as many errors, in their order, each as Done, Fail or Release would return it.
func (t *Taker) Settle(ctx context.Context, settlements ...Settlement) []error { return nil }

// Extend extends many leases in few round trips. It returns as many errors, in their order, each as Lease.Extend would return it.
func (t *Taker) Extend(ctx context.Context, leases ...*Lease) []error { return nil }

func newTaker(conn connection, cfg TakerConfig) *Taker { return &Taker{} }
