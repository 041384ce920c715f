package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
)

// Scheduler enqueues tasks periodically. It is safe for concurrent use.
//
// Run any number of schedulers with the same SchedulerOpts.Group: each tick is enqueued exactly
// once, even if instances crash. Without a Group, schedulers are independent of each other.
type Scheduler struct {
	broker  *rdb.Broker
	opts    SchedulerOpts
	log     *slog.Logger
	process wire.Process
	now     func() time.Time
	lease   time.Duration // of the leadership of a group

	life  lifecycle.Lifecycle
	loops *runner.Runner // set by Start

	mu      sync.Mutex   // guards the fields below
	entries []*scheduled // in order of registration
	term    term

	warnPauses                         sync.Once
	wakeTicks, wakeLead, wakeHeartbeat chan struct{}
	published                          time.Time // when the entries were; zero if they are not; accessed only by its loop
}

// NewScheduler returns a scheduler that connects to Redis with the options r. It does not contact
// Redis before Ping or Start. If opts is nil, all options have their defaults. It panics if r or
// opts is invalid.
func NewScheduler(r RedisConnOpt, opts *SchedulerOpts) *Scheduler {
	conn := connect(r)
	o, err := opts.withDefaults()
	if err != nil {
		panic(err)
	}
	return newScheduler(conn, o)
}

// NewSchedulerFromRedisClient returns a scheduler that uses an existing connection, which the
// caller remains responsible for closing. If opts is nil, all options have their defaults. It
// panics if c is nil or opts is invalid.
func NewSchedulerFromRedisClient(c redis.UniversalClient, opts *SchedulerOpts) *Scheduler {
	return NewScheduler(SharedRedisClient(c), opts)
}

func newScheduler(conn connection, opts SchedulerOpts) *Scheduler {
	log := newSlog(opts.Logger, opts.LogLevel)
	return &Scheduler{
		broker:        conn.enqueuer(),
		opts:          opts,
		log:           log,
		process:       newProcess(),
		now:           time.Now,
		lease:         groupLease,
		life:          lifecycle.Lifecycle{Name: "scheduler", ErrClosed: ErrSchedulerClosed, Release: conn.release, Log: log},
		wakeTicks:     make(chan struct{}, 1),
		wakeLead:      make(chan struct{}, 1),
		wakeHeartbeat: make(chan struct{}, 1),
	}
}

// Register adds an entry that enqueues task at the times of cronspec, and returns its ID. opts
// override the options of the task. Entries may be added before and after Start. Register returns
// an error if the spec, the task or an option is invalid, or if the spec has no tick within five
// years, and ErrSchedulerClosed after Shutdown.
//
// A spec consists of five fields (minute, hour, day of month, month, day of week), or is one of
// @yearly, @monthly, @weekly, @daily, @hourly, or "@every d" with a duration of whole seconds. The
// prefix CRON_TZ=zone sets the time zone, for example "CRON_TZ=Asia/Tokyo 0 9 * * *". When clocks
// are changed, a local time that is skipped has no tick on that day, and one that occurs twice has
// two.
func (s *Scheduler) Register(cronspec string, task *Task, opts ...Option) (entryID string, err error) {
	return s.RegisterConfig(PeriodicTaskConfig{Cronspec: cronspec, Task: task, Opts: opts})
}

// RegisterConfig is like Register with the settings of a PeriodicTaskConfig.
func (s *Scheduler) RegisterConfig(cfg PeriodicTaskConfig) (entryID string, err error) {
	e, err := s.newScheduled(cfg)
	if err != nil {
		return "", err
	}
	return s.add(e)
}

// add registers an entry and sets its ID.
func (s *Scheduler) add(e *scheduled) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.State() >= lifecycle.Stopped {
		return "", ErrSchedulerClosed
	}
	for slices.ContainsFunc(s.entries, func(o *scheduled) bool { return o.identity == e.identity && o.ordinal == e.ordinal }) {
		e.ordinal++
	}
	e.id, e.pauseID = uuid.NewString(), e.entryID(s.opts.Group)
	if s.opts.Group != "" {
		e.id = e.pauseID
	}
	s.entries = append(s.entries, e)
	wake(s.wakeTicks)
	wake(s.wakeHeartbeat)
	return e.id, nil
}

// Unregister removes an entry. Tasks that it has enqueued are not affected. It returns
// ErrSchedulerEntryNotFound if no entry has this ID.
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

// wake wakes a loop.
func wake(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default: // a wake signal is pending
	}
}

// Ping checks the connection to Redis. It returns ErrSchedulerClosed after Shutdown.
func (s *Scheduler) Ping() error {
	if err := s.life.Err(); err != nil {
		return err
	}
	return s.broker.Ping(context.Background())
}

// Run starts the scheduler, waits for SIGTERM or SIGINT, and shuts the scheduler down. It returns
// nil after the shutdown, or the error of Start.
func (s *Scheduler) Run() error {
	signals := lifecycle.Notify(nil)
	defer signals.Close()
	if err := s.Start(); err != nil {
		return err
	}
	signals.Wait(nil)
	s.Shutdown()
	return nil
}

// Start starts enqueueing tasks in the background. It returns an error if the scheduler was started
// before, and ErrSchedulerClosed after Shutdown.
func (s *Scheduler) Start() error {
	return s.life.Start(func() error {
		s.start()
		return nil
	})
}

// start starts the loops of the scheduler and additional ones.
func (s *Scheduler) start(more ...runner.Loop) {
	s.mu.Lock()
	if s.opts.Group == "" {
		s.term = term{id: 1, began: s.now()}
	}
	entries := len(s.entries)
	s.mu.Unlock()
	s.loops = runner.New(s.log, append(s.table(), more...)...)
	s.log.Info(s.life.Name+" started", "entries", entries, "group", s.opts.Group)
	s.loops.Start(context.Background())
}

// Shutdown stops enqueueing tasks and removes the scheduler's entries from Redis. In a group,
// another scheduler takes over. If Redis is unreachable, Shutdown returns after 2 seconds. It may
// be called more than once; before Start it does nothing.
func (s *Scheduler) Shutdown() {
	_ = s.life.Shutdown(func() error { // it logs the error
		var steps lifecycle.Steps
		steps.Run(stopTimeout, s.loops.StopAll)
		steps.Run(leaveTimeout, s.leave)
		return steps.Err()
	})
}

// leave releases the leadership of the group and withdraws the published entries.
func (s *Scheduler) leave(ctx context.Context) error {
	var errs []error
	if s.opts.Group != "" {
		errs = append(errs, s.broker.ReleaseLeadership(ctx, s.opts.Group, s.process.ID))
	}
	return errors.Join(append(errs, s.broker.WithdrawEntries(ctx, s.process))...)
}

// SchedulerOpts configures a Scheduler. A field that is zero has its default.
type SchedulerOpts struct {
	// HeartbeatInterval is how often the scheduler publishes its entries for the Inspector. They
	// expire after two intervals. The default is 10 seconds.
	HeartbeatInterval time.Duration

	// Logger receives the log of the scheduler. NewSlogLogger adapts a *slog.Logger. By default,
	// the scheduler logs to standard error.
	Logger Logger

	// LogLevel is the minimum level that is logged. The default is InfoLevel.
	LogLevel LogLevel

	// Location is the time zone of cron specs, unless the entry or the spec (CRON_TZ=) sets one.
	// The default is UTC.
	Location *time.Location

	// PreEnqueueFunc is called before a task is enqueued. It must return quickly, because it blocks
	// other entries. If nil, it is not called.
	PreEnqueueFunc func(task *Task, opts []Option)

	// EnqueueHeaders returns headers for the task of one tick, such as a trace context. They are
	// added to the headers of the task and override them. It is called after PreEnqueueFunc, again
	// for each retry of a tick, and must return quickly. The headers do not affect the ID of the
	// entry. If it is nil or panics, there are no additional headers.
	EnqueueHeaders func(task *Task, opts []Option) map[string]string

	// PostEnqueueFunc is called after each attempt to enqueue a task. If it failed, info is nil. It
	// must return quickly. If nil, it is not called.
	PostEnqueueFunc func(info *TaskInfo, err error)

	// EnqueueErrorHandler is called if a task could not be enqueued. If nil, it is not called.
	//
	// Deprecated: Use PostEnqueueFunc, which is called for errors and successes.
	EnqueueErrorHandler func(task *Task, opts []Option, err error)

	// Group is the name of a group of schedulers on the same Redis, usually one per instance of a
	// program. One of them is the leader and enqueues the tasks. Another one takes over within 10
	// seconds after the leader crashes, and within 1 second after its Shutdown. Each tick is
	// enqueued exactly once. All schedulers of a group must register the same entries: an entry
	// that only some of them have is enqueued only while one of these is the leader.
	//
	// In a group, the ticks of "@every" are multiples of the interval since 1970, the ID of an
	// entry is derived from its settings, and a tick that could not be enqueued is retried until it
	// succeeds. By default, there is no group: every scheduler enqueues its own entries.
	Group string

	// MissedTicks is the policy for ticks that were due while the Group had no leader for more than
	// 10 seconds. Ticks during shorter gaps are enqueued late. Redis stores the last tick of an
	// entry for 30 days. Without a Group, missed ticks are always skipped. The default is
	// SkipMissed.
	MissedTicks MissedTicks
}

// MissedTicks is a policy for ticks that could not be enqueued in time.
type MissedTicks int

// The policies for missed ticks.
const (
	// MissedTicksDefault: for an entry, the policy of the scheduler; for a scheduler, SkipMissed.
	MissedTicksDefault MissedTicks = iota
	// SkipMissed: missed ticks are not enqueued.
	SkipMissed
	// EnqueueLastMissed: one task is enqueued, for the last missed tick.
	EnqueueLastMissed
	// EnqueueAllMissed: a task is enqueued for each of the last 1,000 missed ticks.
	EnqueueAllMissed
)

// maxMissed is the maximum number of tasks of EnqueueAllMissed.
const maxMissed = 1000

// String returns the name of the constant.
func (m MissedTicks) String() string {
	if !m.valid() {
		return fmt.Sprintf("MissedTicks(%d)", int(m))
	}
	return [...]string{"MissedTicksDefault", "SkipMissed", "EnqueueLastMissed", "EnqueueAllMissed"}[m]
}

func (m MissedTicks) valid() bool { return m >= MissedTicksDefault && m <= EnqueueAllMissed }

func (m MissedTicks) validate() error {
	if !m.valid() {
		return fmt.Errorf("asynq: %v is none of SkipMissed, EnqueueLastMissed and EnqueueAllMissed", m)
	}
	return nil
}

// withDefaults returns a copy of the options with all defaults set.
func (opts *SchedulerOpts) withDefaults() (SchedulerOpts, error) {
	var o SchedulerOpts
	if opts != nil {
		o = *opts
	}
	setDefault(&o.HeartbeatInterval, 10*time.Second)
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Group != "" && (strings.TrimSpace(o.Group) == "" || strings.ContainsAny(o.Group, "{}")) {
		return o, fmt.Errorf("asynq: SchedulerOpts.Group %q must not be blank and not contain braces", o.Group)
	}
	if err := o.MissedTicks.validate(); err != nil {
		return o, err
	}
	if o.MissedTicks == MissedTicksDefault || o.Group == "" {
		o.MissedTicks = SkipMissed
	}
	return o, nil
}

// PeriodicTaskConfig is a task and its schedule.
type PeriodicTaskConfig struct {
	// Cronspec is the schedule: five fields, or a descriptor such as "@daily" or "@every 90s"; see
	// Scheduler.Register. It is required.
	Cronspec string

	// Task is the task to enqueue. It is required.
	Task *Task

	// Opts override the options of the task.
	Opts []Option

	// Location is the time zone of Cronspec, unless it sets one (CRON_TZ=). The default is
	// SchedulerOpts.Location.
	Location *time.Location

	// MissedTicks is the policy for missed ticks. The default is SchedulerOpts.MissedTicks.
	MissedTicks MissedTicks
}
