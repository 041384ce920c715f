package asynq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/worker"
)

// PeriodicTaskConfigProvider says which periodic tasks there are to be.
type PeriodicTaskConfigProvider interface {
	// GetConfigs returns all of them. It is called again and again, never twice at once.
	GetConfigs() ([]*PeriodicTaskConfig, error)
}

// PeriodicTaskManagerOpts says how a PeriodicTaskManager works.
type PeriodicTaskManagerOpts struct {
	// PeriodicTaskConfigProvider says which periodic tasks there are to be. It is required.
	PeriodicTaskConfigProvider PeriodicTaskConfigProvider

	// RedisConnOpt says how to reach Redis. It is required unless there is a RedisUniversalClient.
	RedisConnOpt RedisConnOpt

	// RedisUniversalClient is a connection to use instead, which stays the caller's to close.
	RedisUniversalClient redis.UniversalClient

	// SchedulerOpts are those of the scheduler that enqueues the tasks. With a Group, several managers enqueue each tick once;
	// their providers must say the same.
	*SchedulerOpts

	// SyncInterval is how often the provider is asked. Default: 3 min.
	SyncInterval time.Duration
}

// PeriodicTaskManager enqueues the periodic tasks that a provider names, and asks again from time to time. Tasks whose config did not
// change go on undisturbed. It is safe for concurrent use.
//
// If the provider fails or panics, all tasks go on as they are. A config that is invalid is logged and left out, and the others are
// put into effect. As it may be the new form of a task that was valid before, tasks of the same type and payload go on; where
// the config has no task to compare, no task is ended in that round.
type PeriodicTaskManager struct {
	scheduler *Scheduler
	provider  PeriodicTaskConfigProvider
	interval  time.Duration
	ended     context.Context // by Shutdown
	end       context.CancelFunc

	mu      sync.Mutex // held through start and shutdown; guards what follows
	loops   *runner.Runner
	started bool

	running map[string][]running // by all that makes an entry; the sync's alone
}

// running is an entry that the manager registered.
type running struct {
	id   string
	task taskKey
}

// taskKey is what a config that changes its form usually keeps.
type taskKey struct{ typename, payload string }

// NewPeriodicTaskManager returns a manager. It fails if opts lack what they need, or no connection can be made of them.
func NewPeriodicTaskManager(opts PeriodicTaskManagerOpts) (*PeriodicTaskManager, error) {
	if isNilValue(opts.PeriodicTaskConfigProvider) {
		return nil, errors.New("asynq: PeriodicTaskManagerOpts has no PeriodicTaskConfigProvider")
	}
	schedulerOpts, err := opts.SchedulerOpts.withDefaults()
	if err != nil {
		return nil, err
	}
	var conn connection
	switch {
	case !isNilValue(opts.RedisUniversalClient):
		conn, err = tryConnect(SharedRedisClient(opts.RedisUniversalClient))
	case !isNilValue(opts.RedisConnOpt):
		conn, err = tryConnect(opts.RedisConnOpt)
	default:
		return nil, errors.New("asynq: PeriodicTaskManagerOpts needs a RedisConnOpt or a RedisUniversalClient")
	}
	if err != nil {
		return nil, err
	}
	positive(&opts.SyncInterval, 3*time.Minute)
	m := &PeriodicTaskManager{
		scheduler: newScheduler(conn, schedulerOpts),
		provider:  opts.PeriodicTaskConfigProvider,
		interval:  opts.SyncInterval,
		running:   make(map[string][]running),
	}
	m.ended, m.end = context.WithCancel(context.Background())
	return m, nil
}

// Run starts the manager, waits for a signal of the operating system to end (TERM or INT), and shuts the manager down. It returns after
// that, or with the error of Start.
func (m *PeriodicTaskManager) Run() error {
	if err := m.Start(); err != nil {
		return err
	}
	waitForEnd()
	m.Shutdown()
	return nil
}

// Start asks the provider, and lets the tasks be enqueued from now on. If the provider fails or one of its configs is invalid, Start
// says so and starts nothing; it may be called again then. It fails if the manager was started before, and with ErrSchedulerClosed
// after Shutdown.
func (m *PeriodicTaskManager) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended.Err() != nil {
		return ErrSchedulerClosed
	}
	if m.started {
		return errors.New("asynq: the periodic task manager is already running")
	}
	plan, err := m.plan(m.ended)
	if err == nil {
		err = errors.Join(plan.invalid...)
	}
	if err == nil {
		err = m.apply(plan)
	}
	if m.ended.Err() != nil {
		return ErrSchedulerClosed
	}
	if err != nil {
		return fmt.Errorf("asynq: the first sync of periodic tasks failed: %w", err)
	}
	if err := m.scheduler.Start(); err != nil {
		return err
	}
	m.started = true
	m.loops = runner.New(runner.Options{Log: m.scheduler.log},
		runner.Loop{Name: "periodic tasks", Tick: m.pausedSync()})
	m.loops.Start(context.Background())
	return nil
}

// Shutdown ends the manager and its scheduler. It does not wait for a provider that is being asked. It is safe to call at any time and
// more than once.
func (m *PeriodicTaskManager) Shutdown() {
	m.end() // first, so that it need not wait for a Start that waits for the provider
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loops != nil {
		if err := within(endTimeout, m.loops.StopAll); err != nil {
			m.scheduler.log.Error("the shutdown was not in order", "error", err)
		}
	}
	m.scheduler.Shutdown()
}

// pausedSync returns sync, which first lets an interval pass: Start has just done the first one.
func (m *PeriodicTaskManager) pausedSync() runner.Tick {
	paused := false
	return func(ctx context.Context) (time.Duration, error) {
		if paused {
			m.sync(ctx)
		}
		paused = true
		return m.interval, nil
	}
}

// sync asks the provider and does what it says. What goes wrong is logged, and tried again after the interval: the provider may be
// busy.
func (m *PeriodicTaskManager) sync(ctx context.Context) {
	log := m.scheduler.log
	plan, err := m.plan(ctx)
	if err == nil {
		for _, invalid := range plan.invalid {
			log.Error("a periodic task's config is invalid", "error", invalid)
		}
		err = m.apply(plan)
	}
	if err != nil && ctx.Err() == nil {
		log.Error("periodic tasks are not synced: they go on as they are", "error", err)
	}
}

// syncPlan is what the provider wants.
type syncPlan struct {
	wanted  map[string][]*scheduled // by all that makes an entry
	order   []string                // its keys, in the provider's order
	invalid []error
	keep    map[taskKey]bool // the tasks of invalid configs
	keepAll bool             // there is one without a task
}

// plan asks the provider, and checks what it says.
func (m *PeriodicTaskManager) plan(ctx context.Context) (*syncPlan, error) {
	configs, err := m.ask(ctx)
	if err != nil {
		return nil, err
	}
	p := &syncPlan{wanted: make(map[string][]*scheduled), keep: make(map[taskKey]bool)}
	for i, cfg := range configs {
		if cfg == nil {
			p.invalid = append(p.invalid, fmt.Errorf("asynq: config %d is nil", i))
			p.keepAll = true
			continue
		}
		e, err := m.scheduler.newScheduled(*cfg)
		if err != nil {
			p.invalid = append(p.invalid, fmt.Errorf("config %d: %w", i, err))
			if cfg.Task == nil {
				p.keepAll = true
			} else {
				p.keep[keyOf(cfg.Task)] = true
			}
			continue
		}
		key := fmt.Sprintf("%v %s", e.missed, e.identity)
		if p.wanted[key] == nil {
			p.order = append(p.order, key)
		}
		p.wanted[key] = append(p.wanted[key], e)
	}
	return p, nil
}

func keyOf(t *Task) taskKey { return taskKey{t.typename, string(t.payload)} }

// ask calls the provider. It does not wait for it longer than ctx lasts.
func (m *PeriodicTaskManager) ask(ctx context.Context) ([]*PeriodicTaskConfig, error) {
	type answer struct {
		configs []*PeriodicTaskConfig
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		if err := worker.Contain(func() { a.configs, a.err = m.provider.GetConfigs() }); err != nil {
			a = answer{err: err}
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, fmt.Errorf("asynq: the provider of periodic tasks failed: %w", a.err)
		}
		return a.configs, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// apply registers and unregisters what differs from the plan. Entries go before others come, so that one whose policy changed keeps its
// ID in a group.
func (m *PeriodicTaskManager) apply(p *syncPlan) error {
	for key, entries := range m.running {
		stay := len(p.wanted[key])
		for i := len(entries) - 1; i >= stay; i-- {
			if p.keepAll || p.keep[entries[i].task] {
				continue
			}
			if err := m.scheduler.Unregister(entries[i].id); err != nil {
				return err
			}
			m.scheduler.log.Info("periodic task ended", "entry", entries[i].id, "type", entries[i].task.typename)
			entries = append(entries[:i], entries[i+1:]...)
		}
		if m.running[key] = entries; len(entries) == 0 {
			delete(m.running, key)
		}
	}
	for _, key := range p.order {
		for i := len(m.running[key]); i < len(p.wanted[key]); i++ {
			e := p.wanted[key][i]
			id, err := m.scheduler.add(e)
			if err != nil {
				return err
			}
			m.scheduler.log.Info("periodic task registered", "entry", id, "type", e.task.typename, "spec", e.spec)
			m.running[key] = append(m.running[key], running{id: id, task: keyOf(e.task)})
		}
	}
	return nil
}
