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

	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
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
	base *Server // never started: what a taker has in common with one
	pool *worker.Pool

	forwarders atomic.Pointer[map[string]*loops.Forwarder] // of the queues that are looked after

	mu     sync.Mutex // held through start, shutdown and SetQueues
	upkeep *runner.Runner
	tell   *runner.Runner

	partsMu sync.Mutex // guards what follows
	queues  map[string]int
	pumps   []*runner.Runner
	ended   bool // no pump may begin any more
}

// TakerConfig says how a Taker works. The zero value of a field stands for its default, and so does what is below zero.
type TakerConfig struct {
	// Queues are the queues to look after, and their weights, as in Config.Queues; Take takes from other queues, too, with weight 1. SetQueues
	// changes them. Default: {"default": 1}.
	Queues map[string]int

	// StrictPriority lets a Take of several queues get tasks of a queue only if those with a higher weight are empty.
	StrictPriority bool

	// QueueConcurrency is how many tasks of a queue may be active at the same time, or InOrder, as in Config. SetQueues changes it.
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

// handConcurrency is for how many tasks at a time the pumps of a Taker are made: with half as many outcomes a second turn is worth its
// cost, while the first one is on its way.
const handConcurrency = 100

func newTaker(conn connection, cfg TakerConfig) *Taker {
	base := newServer(conn, Config{
		Concurrency: handConcurrency, Queues: cfg.Queues, StrictPriority: cfg.StrictPriority, QueueConcurrency: maps.Clone(cfg.QueueConcurrency),
		LeaseDuration: cfg.LeaseDuration, TaskCheckInterval: cfg.TaskCheckInterval, DelayedTaskCheckInterval: cfg.DelayedTaskCheckInterval,
		JanitorInterval: cfg.JanitorInterval, JanitorBatchSize: cfg.JanitorBatchSize, RetryDelayFunc: cfg.RetryDelayFunc,
		IsFailure: cfg.IsFailure, ErrorHandler: cfg.ErrorHandler, Logger: cfg.Logger, LogLevel: cfg.LogLevel, Namespace: cfg.Namespace,
		ShutdownTimeout: cfg.ShutdownTimeout, Observer: cfg.Observer,
	})
	t := &Taker{base: base, queues: base.cfg.Queues}
	t.pool = worker.NewPool(worker.Config{
		Broker:        base.broker,
		Log:           base.log,
		Concurrency:   base.cfg.Concurrency,
		Queues:        base.cfg.Queues,
		Strict:        base.cfg.StrictPriority,
		MaxActive:     base.cfg.QueueConcurrency,
		Lease:         base.cfg.LeaseDuration,
		CheckInterval: base.cfg.TaskCheckInterval,
		TokenPrefix:   base.tokenPrefix(),
		Hand: &worker.HandConfig{
			Lane:      base.broker.Lane,
			NewWaiter: func(queue string) worker.Waiter { return base.broker.NewWaiter([]string{queue}, base.process.ID) },
			Begin:     t.begin,
		},
		Callbacks: base.callbacks(t.prepare, t.delayed),
	})
	return t
}

// begin lets the loops of a pump run.
func (t *Taker) begin(pump *worker.Pump) {
	t.partsMu.Lock()
	defer t.partsMu.Unlock()
	if t.ended {
		return
	}
	loops := runner.New(runner.Options{Log: t.base.log}, pumpLoops(pump)...)
	t.pumps = append(t.pumps, loops)
	loops.Start(context.Background())
}

// prepare makes the Task and the Lease of an attempt.
func (t *Taker) prepare(a *worker.Attempt) {
	t.base.prepare(a)
	a.Lease = &Lease{
		taker: t, queue: a.Queue, id: a.Message.ID, token: a.Token, attempt: a,
		info: newTaskInfo(a.Message, TaskStateActive, time.Time{}, nil),
	}
}

// delayed tells the forwarder of a queue, if it is looked after, of a task that waits.
func (t *Taker) delayed(queue string, delay time.Duration) {
	if all := t.forwarders.Load(); all != nil {
		if forwarder := (*all)[queue]; forwarder != nil {
			forwarder.Expect(delay)
		}
	}
}

// Ping asks Redis for a sign of life. It returns ErrTakerClosed after Shutdown.
func (t *Taker) Ping() error {
	if t.base.currentState() == stateClosed {
		return ErrTakerClosed
	}
	return t.base.broker.Ping(context.Background())
}

// Start lets the Taker work, and returns at once. It fails if the Taker was started before, and with ErrTakerClosed after Shutdown.
func (t *Taker) Start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.base.currentState() {
	case stateActive:
		return errors.New("asynq: the taker is already running")
	case stateStopped, stateClosed:
		return ErrTakerClosed
	}
	t.base.started = time.Now()
	t.base.setState(stateActive)
	t.base.log.Info("taker started", "queues", len(t.queues))
	t.tell = runner.New(runner.Options{Log: t.base.log}, t.base.presence(t.pool, t.info)...)
	t.tell.Start(context.Background())
	t.lookAfter(t.queues, t.base.cfg.QueueConcurrency)
	return nil
}

// lookAfter starts what the queues need.
func (t *Taker) lookAfter(queues, concurrency map[string]int) {
	names := slices.Sorted(maps.Keys(queues))
	forwarders := make(map[string]*loops.Forwarder, len(names))
	table := []runner.Loop{t.base.announcer(names)}
	for _, lane := range t.base.broker.Lanes(names) {
		forwarder, upkeep := t.base.upkeep(lane, concurrency)
		for _, queue := range lane {
			forwarders[queue] = forwarder
		}
		table = append(table, upkeep...)
	}
	t.upkeep = runner.New(runner.Options{Log: t.base.log}, table...)
	t.forwarders.Store(&forwarders)
	t.upkeep.Start(context.Background())
}

// info is what the heartbeat tells of the taker. Its concurrency is what it holds and waits for.
func (t *Taker) info() *wire.ServerInfo {
	info := t.base.info()
	info.Queues = t.ownQueues()
	info.Concurrency = len(t.pool.Running()) + t.pool.Wanted()
	return info
}

func (t *Taker) ownQueues() map[string]int {
	t.partsMu.Lock()
	defer t.partsMu.Unlock()
	return t.queues
}

// Shutdown ends the Taker: each Take that waits returns ErrTakerClosed, and outcomes that are on their way to Redis get there, for up to
// TakerConfig.ShutdownTimeout. Leases stay with their holders, to be extended and settled by another Taker. It is safe to call at any
// time and more than once.
func (t *Taker) Shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), t.base.cfg.ShutdownTimeout)
	defer cancel()
	_ = t.ShutdownContext(ctx) // what went wrong has been logged
}

// ShutdownContext is Shutdown with ctx in place of the ShutdownTimeout. The error says what could not be ended in order.
func (t *Taker) ShutdownContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.base.currentState() {
	case stateClosed:
		return nil
	case stateNew:
		t.base.setState(stateClosed)
		t.pool.Close()
		return t.base.closeConnection()
	}
	t.base.log.Info("taker shuts down")
	t.base.setState(stateStopped)
	err := errors.Join(t.end(ctx), t.base.closeConnection())
	t.base.setState(stateClosed)
	if err != nil {
		t.base.log.Error("the shutdown was not in order", "error", err)
	} else {
		t.base.log.Info("taker ended")
	}
	return err
}

func (t *Taker) end(ctx context.Context) error {
	t.pool.StopFetching()
	var errs []error
	step := func(f func(ctx context.Context) error) {
		if err := within(endTimeout, f); err != nil {
			errs = append(errs, err)
		}
	}
	step(t.upkeep.StopAll)
	if t.pool.Drain(ctx) != nil {
		errs = append(errs, fmt.Errorf("asynq: %d outcomes and fetches are in doubt", t.pool.Open()))
	}
	t.partsMu.Lock()
	t.ended = true
	pumps := t.pumps
	t.partsMu.Unlock()
	step(func(ctx context.Context) error {
		var errs []error
		for _, p := range pumps {
			errs = append(errs, p.StopAll(ctx))
		}
		return errors.Join(errs...)
	})
	step(t.tell.StopAll)
	step(t.pool.PassMarkers)
	step(func(ctx context.Context) error { return t.base.broker.Withdraw(ctx, t.base.process) })
	t.pool.Close()
	return errors.Join(errs...)
}

// SetQueues puts others in the place of TakerConfig.Queues and QueueConcurrency, while the Taker works. Leases stay as they are, and so
// does what waits in Take. It returns ErrTakerClosed after Shutdown.
func (t *Taker) SetQueues(queues, concurrency map[string]int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	queues = validQueues(queues)
	state := t.base.currentState()
	if state == stateStopped || state == stateClosed {
		return ErrTakerClosed
	}
	t.partsMu.Lock()
	t.queues = queues
	t.partsMu.Unlock()
	concurrency = maps.Clone(concurrency)
	t.pool.SetQueues(queues, concurrency)
	if state == stateActive {
		err := within(endTimeout, t.upkeep.StopAll)
		t.lookAfter(queues, concurrency)
		if err != nil {
			t.base.log.Warn("loops of the queues before go on for a while", "error", err)
		}
	}
	return nil
}

// maxTake is how many tasks a Take brings at most.
const maxTake = 500

// Take waits until one of the queues has tasks, and takes up to n of them, at most 500, oldest first in each queue. Without queues, it
// takes from those of the Taker. No task leaves its queue unless a Take waits for it. Where several wait for a queue, the one that came first
// gets tasks first. Of several queues with tasks, each gives a share in proportion to its weight. There may be more than it returns: what
// is there at once is not waited for to become n.
//
// When ctx ends first, Take returns its error, and what was taken for it goes back to the front of its queue. While Redis cannot be
// reached, Take waits. The error is ErrTakerClosed after Shutdown.
func (t *Taker) Take(ctx context.Context, n int, queues ...string) ([]*Lease, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if n < 1 {
		return nil, fmt.Errorf("asynq: cannot take %d tasks: n must be at least 1", n)
	}
	for _, q := range queues {
		if err := validateQueueName(q); err != nil {
			return nil, err
		}
		if !utf8.ValidString(q) {
			return nil, fmt.Errorf("asynq: queue name %q is not UTF-8", q)
		}
	}
	if len(queues) == 0 {
		queues = slices.Collect(maps.Keys(t.ownQueues()))
	}
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	queues = slices.Clone(queues)
	slices.Sort(queues)
	attempts, err := t.pool.Take(ctx, min(n, maxTake), slices.Compact(queues))
	if err != nil {
		return nil, takerError(err)
	}
	leases := make([]*Lease, len(attempts))
	for i, a := range attempts {
		leases[i] = a.Lease.(*Lease)
		a.Tell()
	}
	return leases, nil
}

// usable says why the taker can do nothing; nil if it can.
func (t *Taker) usable() error {
	switch t.base.currentState() {
	case stateActive, stateStopped: // outcomes get to Redis while it shuts down
		return nil
	case stateNew:
		return errors.New("asynq: the taker is not running: call Start first")
	default:
		return ErrTakerClosed
	}
}

// takerError says in the words of a taker what the workers said in those of a server.
func takerError(err error) error {
	if errors.Is(err, worker.ErrServerClosed) {
		return ErrTakerClosed
	}
	return err
}

// Lease returns the lease that somebody holds under this token: to be extended or settled here, wherever it was taken. It asks nobody, so
// whether there is such a lease is only known then. What this Taker has taken itself it returns with its task.
func (t *Taker) Lease(queue, id, token string) *Lease {
	if a := t.pool.LookUp(queue, id, token); a != nil {
		return a.Lease.(*Lease)
	}
	return &Lease{taker: t, queue: queue, id: id, token: token}
}
