package asynq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/worker"
)

// Receiver receives tasks from queues on demand, for programs that process tasks without a Handler:
// a service that passes tasks to workers in other languages, or a program with a loop of its own.
// Each received task comes with a Lease, which the caller extends while it works and finally
// settles. Leases do not depend on the Receiver: every Receiver on the same Redis can extend and
// settle them, given a LeaseRef, and they outlive Shutdown.
//
// A Receiver also maintains the queues of ReceiverConfig.Queues like a Server does: it makes tasks
// pending when they are due, retries tasks whose lease has expired, and deletes completed tasks
// when their retention has passed. It does not aggregate groups.
//
// Inspector.Servers lists workers by the names that they pass to ReceiveAs, with their queues and
// leases, and the Receiver itself for calls of Receive. A Receiver is safe for concurrent use.
type Receiver struct {
	base *Server // never started: provides what a Receiver and a Server have in common
	pool *worker.Pool

	forwarders atomic.Pointer[map[string]*loops.Forwarder] // of the maintained queues

	pollers   *pollers
	published *loops.Heartbeater

	// Accessed only during start, shutdown and SetQueues, which exclude each other.
	maintenance *runner.Runner
	publishing  *runner.Runner

	partsMu  sync.Mutex // guards the fields below
	queues   map[string]int
	divided  map[string]*rdb.Partitions // queues with partitions
	fetchers map[*worker.Fetcher]*runner.Runner
	ended    bool // no fetcher may start any more
}

// ReceiverConfig configures a Receiver. A field that is zero or negative has its default.
type ReceiverConfig struct {
	// Queues maps the names of the queues to maintain to their weights, as in Config.Queues.
	// Receive accepts other queues, too; their weight is 1. SetQueues replaces them. The default is
	// {"default": 1}.
	Queues map[string]int

	// StrictPriority receives tasks of a queue only while all queues of the call with a higher
	// weight are empty.
	StrictPriority bool

	// QueueConcurrency and QueueConfigs limit the queues, as in Config. SetQueues replaces both.
	QueueConcurrency map[string]int
	QueueConfigs     map[string]QueueConfig

	// Archive limits the archives of the queues, as in Config.
	Archive ArchiveConfig

	// LeaseDuration is how long a lease lasts after Receive or Extend. It is rounded up to whole
	// seconds. The default is 30 seconds.
	LeaseDuration time.Duration

	// TaskCheckInterval, DelayedTaskCheckInterval, JanitorInterval and JanitorBatchSize are as in
	// Config.
	TaskCheckInterval        time.Duration
	DelayedTaskCheckInterval time.Duration
	JanitorInterval          time.Duration
	JanitorBatchSize         int

	// RetryDelayFunc, IsFailure, ErrorHandler and AttemptLog apply to failed attempts, as in
	// Config.
	RetryDelayFunc RetryDelayFunc
	IsFailure      func(error) bool
	ErrorHandler   ErrorHandler
	AttemptLog     int

	// Logger, LogLevel and Namespace are as in Config.
	Logger    Logger
	LogLevel  LogLevel
	Namespace string

	// ShutdownTimeout is how long Shutdown waits for settlements that are in flight. The default is
	// 8 seconds.
	ShutdownTimeout time.Duration

	// DisableStats turns off the statistics over time, as in Config. A Receiver counts the attempts
	// whose leases it has settled.
	DisableStats bool

	// Observer is notified of attempts, as in Config: an attempt starts when Receive returns its
	// lease, and ends when the lease is settled by this Receiver.
	Observer *Observer

	// OnArchived is called for archived tasks, as in Config: those whose leases this Receiver
	// settled, and those of expired leases that it recovered.
	OnArchived func(ctx context.Context, t *TaskInfo, err error)
}

// NewReceiver returns a Receiver that connects to Redis with the given options. It does not contact
// Redis before Ping or Start. It panics if opt or cfg is invalid.
func NewReceiver(opt RedisConnOpt, cfg ReceiverConfig) *Receiver {
	base := NewServer(opt, Config{
		Concurrency:              receiverConcurrency,
		Queues:                   cfg.Queues,
		StrictPriority:           cfg.StrictPriority,
		QueueConcurrency:         cfg.QueueConcurrency,
		QueueConfigs:             cfg.QueueConfigs,
		Archive:                  cfg.Archive,
		LeaseDuration:            cfg.LeaseDuration,
		TaskCheckInterval:        cfg.TaskCheckInterval,
		DelayedTaskCheckInterval: cfg.DelayedTaskCheckInterval,
		JanitorInterval:          cfg.JanitorInterval,
		JanitorBatchSize:         cfg.JanitorBatchSize,
		RetryDelayFunc:           cfg.RetryDelayFunc,
		IsFailure:                cfg.IsFailure,
		ErrorHandler:             cfg.ErrorHandler,
		AttemptLog:               cfg.AttemptLog,
		Logger:                   cfg.Logger,
		LogLevel:                 cfg.LogLevel,
		Namespace:                cfg.Namespace,
		ShutdownTimeout:          cfg.ShutdownTimeout,
		DisableStats:             cfg.DisableStats,
		Observer:                 cfg.Observer,
		OnArchived:               cfg.OnArchived,
	})
	r := &Receiver{base: base, queues: base.cfg.Queues, divided: base.parts, fetchers: make(map[*worker.Fetcher]*runner.Runner), pollers: newPollers()}
	workers := base.workerConfig(r.prepare, r.delayed)
	workers.Receiver = &worker.ReceiverConfig{
		Lane:      base.broker.Lane,
		NewWaiter: func(queue string) rdb.Waiter { return base.broker.NewWaiter([]string{queue}, base.process.ID) },
		Start:     r.startFetcher,
		Stop:      r.stopFetcher,
	}
	r.pool = worker.NewPool(workers)
	base.life.Name, base.life.ErrClosed, base.life.CloseUnstarted = "receiver", ErrReceiverClosed, true
	base.life.Release = func() error {
		r.pool.Close()
		return base.conn.release()
	}
	return r
}

// NewReceiverFromRedisClient returns a Receiver that uses an existing connection, which the caller
// remains responsible for closing. It panics if c is nil or cfg is invalid.
func NewReceiverFromRedisClient(c redis.UniversalClient, cfg ReceiverConfig) *Receiver {
	return NewReceiver(SharedRedisClient(c), cfg)
}

// receiverConcurrency is the concurrency that the fetchers of a Receiver are tuned for: a second
// round trip starts while the first is in flight if it carries half as many outcomes.
const receiverConcurrency = 100

// startFetcher starts the loops of a fetcher.
func (r *Receiver) startFetcher(fetcher *worker.Fetcher) {
	r.partsMu.Lock()
	defer r.partsMu.Unlock()
	if r.ended {
		return
	}
	loops := runner.New(r.base.log, fetcherLoops(fetcher)...)
	r.fetchers[fetcher] = loops
	loops.Start(context.Background())
}

// stopFetcher stops the loops of a fetcher that is not needed any more.
func (r *Receiver) stopFetcher(fetcher *worker.Fetcher) {
	r.partsMu.Lock()
	loops := r.fetchers[fetcher]
	delete(r.fetchers, fetcher)
	r.partsMu.Unlock()
	if loops == nil {
		return
	}
	if err := lifecycle.Within(context.Background(), stopTimeout, loops.StopAll); err != nil {
		r.base.log.Warn("loops of an unused queue are still running", "error", err)
	}
}

// forgetInterval is how long the state of an unconfigured queue is kept after its last Receive.
const forgetInterval = time.Minute

// prepare creates the Task and the Lease of an attempt.
func (r *Receiver) prepare(a *worker.Attempt) {
	r.base.prepare(a)
	a.Lease = &Lease{
		receiver:   r,
		ref:        LeaseRef{Queue: a.Queue, ID: a.Message.ID, Token: a.Token},
		leaseState: leaseState{attempt: a, info: newTaskInfo(a.Message, TaskStateActive, time.Time{}, nil)},
	}
}

// delayed notifies the forwarder of a maintained queue of a task that is due after delay.
func (r *Receiver) delayed(queue string, delay time.Duration) {
	if all := r.forwarders.Load(); all != nil {
		if forwarder := (*all)[queue]; forwarder != nil {
			forwarder.Expect(delay)
		}
	}
}

// Ping checks the connection to Redis. It returns ErrReceiverClosed after Shutdown.
func (r *Receiver) Ping() error {
	if err := r.base.life.Err(); err != nil {
		return err
	}
	return r.base.broker.Ping(context.Background())
}

// Start starts the Receiver in the background. It returns an error if the Receiver was started
// before, and ErrReceiverClosed after Shutdown.
func (r *Receiver) Start() error {
	return r.base.life.Start(func() error {
		r.base.log.Info("receiver started", "queues", len(r.queues))
		r.publishing = runner.New(r.base.log, r.presence()...)
		r.publishing.Start(context.Background())
		r.maintain(r.queues, r.base.limits)
		return nil
	})
}

// maintain starts the maintenance loops of the queues.
func (r *Receiver) maintain(queues, limits map[string]int) {
	names := slices.Sorted(maps.Keys(queues))
	forwarders := make(map[string]*loops.Forwarder, len(names))
	var table []runner.Loop
	for _, lane := range lanes(r.base.broker, names) {
		forwarder, maintenance := r.base.maintenance(lane, limits)
		for _, queue := range lane {
			forwarders[queue] = forwarder
		}
		table = append(table, maintenance...)
	}
	r.maintenance = runner.New(r.base.log, table...)
	r.forwarders.Store(&forwarders)
	r.maintenance.Start(context.Background())
}

func (r *Receiver) partitionedQueues() map[string]*rdb.Partitions {
	r.partsMu.Lock()
	defer r.partsMu.Unlock()
	return r.divided
}

func (r *Receiver) configuredQueues() map[string]int {
	r.partsMu.Lock()
	defer r.partsMu.Unlock()
	return r.queues
}

// Shutdown shuts the Receiver down: blocked calls of Receive return ErrReceiverClosed, and
// settlements in flight complete, for up to ReceiverConfig.ShutdownTimeout. Leases remain valid and
// can be extended and settled with another Receiver. If Redis is unreachable, Shutdown takes up to
// 2 seconds longer. It may be called more than once, also before Start.
func (r *Receiver) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), r.base.cfg.ShutdownTimeout)
	defer cancel()
	_ = r.ShutdownContext(ctx) // it logs the error
}

// ShutdownContext is like Shutdown, but waits until ctx ends instead of
// ReceiverConfig.ShutdownTimeout. It returns an error if the shutdown was incomplete.
func (r *Receiver) ShutdownContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return r.base.life.Shutdown(func() error { return r.end(ctx) })
}

func (r *Receiver) end(ctx context.Context) error {
	r.pool.StopFetching()
	r.base.archived.stopping()
	errs := []error{lifecycle.Within(ctx, stopTimeout, r.maintenance.StopAll)}
	if r.pool.Drain(ctx) != nil {
		errs = append(errs, fmt.Errorf("asynq: the outcome of %d fetches and settlements is unknown", r.pool.Open()))
	}
	r.base.archived.drain(ctx)
	r.partsMu.Lock()
	r.ended = true
	parts := append(slices.Collect(maps.Values(r.fetchers)), r.publishing)
	r.partsMu.Unlock()
	var steps lifecycle.Steps
	steps.Run(stopTimeout, func(ctx context.Context) error {
		var errs []error
		for _, p := range parts {
			errs = append(errs, p.StopAll(ctx))
		}
		return errors.Join(errs...)
	})
	steps.Run(leaveTimeout, r.base.leave(r.pool, r.published.Processes()...))
	return errors.Join(append(errs, steps.Err(), r.base.archived.end())...)
}

// SetQueues replaces ReceiverConfig.Queues, QueueConcurrency and QueueConfigs of a running
// Receiver. It affects neither leases nor blocked calls of Receive. It returns an error if configs
// is invalid, and ErrReceiverClosed after Shutdown.
func (r *Receiver) SetQueues(queues map[string]int, configs map[string]QueueConfig) error {
	return r.base.life.Change(func(active bool) error {
		limits, err := queueLimits(nil, configs)
		if err != nil {
			return err
		}
		parts, err := queuePartitions(configs)
		if err != nil {
			return err
		}
		_, archives, err := archiveLimits(r.base.cfg.Archive, configs)
		if err != nil {
			return err
		}
		r.base.broker.Archives.Store(&archives)
		queues = validQueues(queues)
		r.partsMu.Lock()
		r.queues, r.divided = queues, parts
		r.partsMu.Unlock()
		r.base.limits = limits
		r.pool.SetQueues(queues, limits, parts)
		if !active {
			return nil
		}
		err = lifecycle.Within(context.Background(), stopTimeout, r.maintenance.StopAll)
		r.maintain(queues, limits)
		if err != nil {
			r.base.log.Warn("loops of the previous queues are still running", "error", err)
		}
		return nil
	})
}

// maxReceive is the maximum number of tasks that one Receive returns.
const maxReceive = 500

// Receive waits until at least one of the queues has pending tasks, and returns leases of up to n
// of them, at most 500, oldest first within each queue. It returns as soon as tasks are available;
// it may return fewer than n tasks even if more are pending. If no queues are given, those of the
// Receiver are used.
//
// Tasks leave their queue only while a Receive waits for them. Concurrent calls for a queue are
// served in the order in which they were made. Several queues with pending tasks contribute in
// proportion to their weights.
//
// If ctx ends first, Receive returns its error, and tasks that were fetched for it return to the
// front of their queues. While Redis is unreachable, Receive keeps waiting. It returns an error if
// n is less than 1, if the name of a queue is invalid (see Queue), or if the Receiver is not
// running, and ErrReceiverClosed after Shutdown.
func (r *Receiver) Receive(ctx context.Context, n int, queues ...string) ([]*Lease, error) {
	return r.receive(ctx, "", n, queues)
}

// ReceiveAs is like Receive for the worker with the given name, such as its host and process ID:
// "web-1:4711". Inspector.Servers lists the worker with the queues of its calls and the tasks that
// it holds: during the calls, for 30 seconds after the last one, and while it holds leases. Workers
// with the same name on several Receivers are listed as one. A Receiver tracks up to 1,000 names
// and 10,000 pairs of a name and a queue. Further names are listed as the Receiver itself, further
// queues not at all.
//
// In addition to the errors of Receive, it returns an error if the name is blank, longer than 200
// bytes, or not printable UTF-8.
func (r *Receiver) ReceiveAs(ctx context.Context, worker string, n int, queues ...string) ([]*Lease, error) {
	if err := validateWorkerName(worker); err != nil {
		return nil, err
	}
	return r.receive(ctx, worker, n, queues)
}

// receive is Receive for a worker; "" is the Receiver itself.
func (r *Receiver) receive(ctx context.Context, worker string, n int, queues []string) ([]*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if n < 1 {
		return nil, fmt.Errorf("asynq: cannot receive %d tasks: n must be at least 1", n)
	}
	for _, q := range queues {
		if err := validateQueueName(q); err != nil {
			return nil, err
		}
		if !utf8.ValidString(q) {
			return nil, fmt.Errorf("asynq: queue name %q is not valid UTF-8", q)
		}
	}
	if len(queues) == 0 {
		queues = slices.Collect(maps.Keys(r.configuredQueues()))
	}
	if err := r.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	queues = slices.Clone(queues)
	slices.Sort(queues)
	queues = slices.Compact(queues)
	end := r.pollers.begin(worker, min(n, maxReceive), queues)
	attempts, err := r.pool.Receive(ctx, min(n, maxReceive), queues)
	end()
	if err != nil {
		return nil, receiverError(err)
	}
	leases := make([]*Lease, len(attempts))
	for i, a := range attempts {
		leases[i] = a.Lease.(*Lease)
		leases[i].setWorker(worker)
		a.NotifyStarted()
	}
	return leases, nil
}

// usable returns an error unless the Receiver is running.
func (r *Receiver) usable() error {
	if r.base.life.State() == lifecycle.New {
		return errors.New("asynq: the receiver is not running: call Start first")
	}
	return r.base.life.Err() // settlements are sent during a shutdown
}
