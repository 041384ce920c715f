package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
)

// Scheduler enqueues tasks periodically. It is safe for concurrent use.
//
// Schedulers that share a SchedulerOpts.Group enqueue each tick once, however many of them run; others know nothing of each other.
type Scheduler struct {
	conn    connection
	broker  *rdb.Broker
	opts    SchedulerOpts
	log     *slog.Logger
	process wire.Process
	now     func() time.Time
	lease   time.Duration // of the lead of a group

	lifecycle sync.Mutex // held through start and shutdown; guards loops
	loops     *runner.Runner

	mu      sync.Mutex // guards what follows
	state   serverState
	entries []*scheduled // in the order in which they were registered
	term    term

	wakeTicks, wakeLead, wakeHeartbeat chan struct{}
	heartbeat                          heartbeat // its loop's alone
}

// NewScheduler returns a scheduler that connects as r says. It panics if r cannot make a connection, or if opts are invalid; whether
// Redis answers is not known before Ping. opts may be nil.
func NewScheduler(r RedisConnOpt, opts *SchedulerOpts) *Scheduler {
	return newScheduler(connect(r), mustSchedulerOpts(opts))
}

// NewSchedulerFromRedisClient returns a scheduler on a connection that stays the caller's to close. It panics if c is nil, or if opts are
// invalid. opts may be nil.
func NewSchedulerFromRedisClient(c redis.UniversalClient, opts *SchedulerOpts) *Scheduler {
	return newScheduler(connectShared(c), mustSchedulerOpts(opts))
}

func mustSchedulerOpts(opts *SchedulerOpts) SchedulerOpts {
	o, err := opts.withDefaults()
	if err != nil {
		panic(err)
	}
	return o
}

func newScheduler(conn connection, opts SchedulerOpts) *Scheduler {
	return &Scheduler{
		conn:          conn,
		broker:        rdb.New(conn.client, conn.namespace),
		opts:          opts,
		log:           newSlog(opts.Logger, opts.LogLevel),
		process:       newProcess(),
		now:           time.Now,
		lease:         groupLease,
		state:         stateNew,
		wakeTicks:     make(chan struct{}, 1),
		wakeLead:      make(chan struct{}, 1),
		wakeHeartbeat: make(chan struct{}, 1),
	}
}

// Register has a task enqueued at the times that the cron spec says, and returns the entry's ID. It may be called at any time before
// Shutdown. The options override those of the task. It checks all that it is given; what it takes can be enqueued.
//
// A spec is five fields (minute, hour, day of month, month, day of week) or a descriptor: @yearly, @monthly, @weekly, @daily, @hourly,
// or "@every d" with a duration of whole seconds. CRON_TZ=zone before it names the time zone, for example "CRON_TZ=Asia/Tokyo 0 9 * * *".
// A local time that a change of clocks leaves out has no tick on that day; one that comes twice has two.
func (s *Scheduler) Register(cronspec string, task *Task, opts ...Option) (entryID string, err error) {
	return s.RegisterConfig(PeriodicTaskConfig{Cronspec: cronspec, Task: task, Opts: opts})
}

// RegisterConfig is Register with all that can be said of an entry.
func (s *Scheduler) RegisterConfig(cfg PeriodicTaskConfig) (entryID string, err error) {
	e, err := s.newScheduled(cfg)
	if err != nil {
		return "", err
	}
	return s.add(e)
}

// add registers an entry and gives it its ID.
func (s *Scheduler) add(e *scheduled) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateClosed {
		return "", ErrSchedulerClosed
	}
	for slices.ContainsFunc(s.entries, func(o *scheduled) bool { return o.identity == e.identity && o.ordinal == e.ordinal }) {
		e.ordinal++
	}
	e.id = uuid.NewString()
	if s.opts.Group != "" {
		e.id = e.entryID(s.opts.Group)
	}
	s.entries = append(s.entries, e)
	wake(s.wakeTicks)
	wake(s.wakeHeartbeat)
	return e.id, nil
}

// Unregister ends what Register began. It fails with ErrSchedulerEntryNotFound (errors.Is) if there is no entry with this ID. Tasks that
// were enqueued already stay.
func (s *Scheduler) Unregister(entryID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.entries, func(e *scheduled) bool { return e.id == entryID })
	if i < 0 {
		return fmt.Errorf("asynq: %w: %q", ErrSchedulerEntryNotFound, entryID)
	}
	s.entries = slices.Delete(s.entries, i, i+1)
	wake(s.wakeHeartbeat)
	return nil
}

// wake ends a loop's rest.
func wake(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default: // it is about to wake
	}
}

// Ping asks Redis for a sign of life. It returns ErrSchedulerClosed after Shutdown.
func (s *Scheduler) Ping() error {
	if s.currentState() == stateClosed {
		return ErrSchedulerClosed
	}
	return s.broker.Ping(context.Background())
}

// Run starts the scheduler, waits for a signal of the operating system to end (TERM or INT), and shuts the scheduler down. It returns
// after that, or with the error of Start.
func (s *Scheduler) Run() error {
	if err := s.Start(); err != nil {
		return err
	}
	waitForEnd()
	s.Shutdown()
	return nil
}

// waitForEnd blocks until the process is asked to end.
func waitForEnd() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	<-signals
}

// Start lets the scheduler enqueue tasks from now on, and returns at once. It fails if the scheduler was started before, and with
// ErrSchedulerClosed after Shutdown.
func (s *Scheduler) Start() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	switch s.currentState() {
	case stateActive:
		return errors.New("asynq: the scheduler is already running")
	case stateClosed:
		return ErrSchedulerClosed
	}
	s.mu.Lock()
	s.state = stateActive
	if s.opts.Group == "" {
		s.term = soloTerm(s.now())
	}
	entries := len(s.entries)
	s.mu.Unlock()
	s.loops = runner.New(runner.Options{Log: s.log}, s.table()...)
	s.log.Info("scheduler started", "entries", entries, "group", s.opts.Group)
	s.loops.Start(context.Background())
	return nil
}

// Shutdown ends the scheduler: no tick is enqueued afterwards, and its entries are withdrawn. In a group, another scheduler takes over.
// It is safe to call at any time and more than once, and takes no longer than some seconds if Redis does not answer.
func (s *Scheduler) Shutdown() {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	was := s.state
	s.state = stateClosed
	s.mu.Unlock()
	if was == stateClosed {
		return
	}
	var errs []error
	if was == stateActive {
		s.log.Info("scheduler shuts down")
		errs = append(errs, within(endTimeout, s.loops.StopAll), within(endTimeout, s.leave))
	}
	if !s.conn.shared {
		errs = append(errs, s.conn.client.Close())
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Error("the shutdown was not in order", "error", err)
	} else if was == stateActive {
		s.log.Info("scheduler ended")
	}
}

// leave withdraws what others see of the scheduler, and gives up the lead.
func (s *Scheduler) leave(ctx context.Context) error {
	var errs []error
	if s.opts.Group != "" {
		errs = append(errs, s.broker.Abdicate(ctx, s.opts.Group, s.process.ID))
	}
	return errors.Join(append(errs, s.broker.WithdrawEntries(ctx, s.process))...)
}

func (s *Scheduler) currentState() serverState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
