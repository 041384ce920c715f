package asynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/lifecycle"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/worker"
)

// PeriodicTaskConfigProvider returns the periodic tasks of a PeriodicTaskManager.
type PeriodicTaskConfigProvider interface {
	// GetConfigs returns all periodic tasks. It is called every SyncInterval, never concurrently.
	GetConfigs() ([]*PeriodicTaskConfig, error)
}

// PeriodicTaskManagerOpts configures a PeriodicTaskManager.
type PeriodicTaskManagerOpts struct {
	// PeriodicTaskConfigProvider returns the periodic tasks. It is required.
	PeriodicTaskConfigProvider PeriodicTaskConfigProvider

	// RedisConnOpt describes the connection to Redis. It is required unless RedisUniversalClient is
	// set.
	RedisConnOpt RedisConnOpt

	// RedisUniversalClient is an existing connection to use instead of RedisConnOpt. The caller
	// remains responsible for closing it.
	RedisUniversalClient redis.UniversalClient

	// SchedulerOpts configures the scheduler that enqueues the tasks. Managers that share a Group
	// enqueue each tick once, provided that their providers return the same configs.
	*SchedulerOpts

	// SyncInterval is how often the provider is called. The default is 3 minutes.
	SyncInterval time.Duration
}

// PeriodicTaskManager enqueues the periodic tasks that a provider returns, and updates them every
// SyncInterval. Tasks whose config is unchanged are not affected by an update. It is safe for
// concurrent use.
//
// If the provider fails or panics, all tasks continue unchanged. An invalid config is logged and
// skipped, and the others are applied. Because it may replace a config that was valid before,
// existing tasks with the same type and payload continue; if the invalid config has no task, no
// task is removed in this update.
type PeriodicTaskManager struct {
	scheduler *Scheduler
	provider  PeriodicTaskConfigProvider
	interval  time.Duration
	ended     context.Context // canceled by Shutdown
	end       context.CancelFunc

	running []running // accessed only by sync
}

// running is an entry that the manager registered.
type running struct {
	id     string
	config string // equal for entries with the same config
	task   taskKey
}

// taskKey identifies a task across changes of its config.
type taskKey struct{ typename, payload string }

// NewPeriodicTaskManager returns a manager. It does not contact Redis before Start. It returns an
// error if opts is invalid.
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
	setDefault(&opts.SyncInterval, 3*time.Minute)
	m := &PeriodicTaskManager{
		scheduler: newScheduler(conn, schedulerOpts),
		provider:  opts.PeriodicTaskConfigProvider,
		interval:  opts.SyncInterval,
	}
	m.scheduler.life.Name, m.scheduler.life.CloseUnstarted = "periodic task manager", true
	m.ended, m.end = context.WithCancel(context.Background())
	return m, nil
}

// Run starts the manager, waits for SIGTERM or SIGINT, and shuts the manager down. It returns nil
// after the shutdown, or the error of Start.
func (m *PeriodicTaskManager) Run() error {
	signals := lifecycle.Notify(nil)
	defer signals.Close()
	if err := m.Start(); err != nil {
		return err
	}
	signals.Wait(nil)
	m.Shutdown()
	return nil
}

// Start calls the provider and starts enqueueing tasks in the background. If the provider fails, or
// returns a config that is nil or has no task or cron spec, Start returns an error and may be
// called again. Configs that are invalid in another way are logged and skipped. Start returns an
// error if the manager was started before, and ErrSchedulerClosed after Shutdown.
func (m *PeriodicTaskManager) Start() error {
	return m.scheduler.life.Start(func() error {
		plan, err := m.plan(m.ended)
		if err == nil {
			err = errors.Join(plan.incomplete...)
		}
		if err == nil {
			m.logInvalid(plan)
			err = m.apply(plan)
		}
		if m.ended.Err() != nil {
			return ErrSchedulerClosed
		}
		if err != nil {
			return fmt.Errorf("asynq: the first sync of periodic tasks failed: %w", err)
		}
		m.scheduler.start(runner.Loop{Name: "periodic tasks", Stage: stageIntake, Tick: startAfter(m.interval, m.sync)})
		return nil
	})
}

// Shutdown stops the manager and its scheduler. It does not wait for a running call of the
// provider. It may be called more than once, also before Start.
func (m *PeriodicTaskManager) Shutdown() {
	m.end() // first, to interrupt a Start that waits for the provider
	m.scheduler.Shutdown()
}

// sync calls the provider and applies its configs. It logs errors and repeats after the interval.
func (m *PeriodicTaskManager) sync(ctx context.Context) (time.Duration, error) {
	plan, err := m.plan(ctx)
	if err == nil {
		m.logInvalid(plan)
		err = m.apply(plan)
	}
	if err != nil && ctx.Err() == nil {
		m.scheduler.log.Error("could not update the periodic tasks: they continue unchanged", "error", err)
	}
	return m.interval, nil
}

// logInvalid logs the configs that are skipped.
func (m *PeriodicTaskManager) logInvalid(p *syncPlan) {
	for _, err := range slices.Concat(p.incomplete, p.invalid) {
		m.scheduler.log.Error("invalid config of a periodic task", "error", err)
	}
}

// syncPlan is the validated result of the provider.
type syncPlan struct {
	wanted     []*scheduled
	incomplete []error          // configs that are nil or have no task or cron spec
	invalid    []error          // other configs that cannot be enqueued
	keep       map[taskKey]bool // tasks of incomplete and invalid configs
	keepAll    bool             // a config has no task
}

// plan calls the provider and validates its configs.
func (m *PeriodicTaskManager) plan(ctx context.Context) (*syncPlan, error) {
	configs, err := m.getConfigs(ctx)
	if err != nil {
		return nil, err
	}
	p := &syncPlan{keep: make(map[taskKey]bool)}
	for i, cfg := range configs {
		if cfg == nil {
			p.incomplete = append(p.incomplete, fmt.Errorf("asynq: config %d is nil", i))
			p.keepAll = true
			continue
		}
		e, err := m.scheduler.newScheduled(*cfg)
		if err == nil {
			p.wanted = append(p.wanted, e)
			continue
		}
		err = fmt.Errorf("config %d: %w", i, err)
		if cfg.Task == nil || cfg.Cronspec == "" {
			p.incomplete = append(p.incomplete, err)
		} else {
			p.invalid = append(p.invalid, err)
		}
		p.keep[keyOf(cfg.Task)] = true
		p.keepAll = p.keepAll || cfg.Task == nil
	}
	return p, nil
}

func keyOf(t *Task) taskKey { return taskKey{t.Type(), string(t.Payload())} }

// getConfigs calls the provider and waits for it until ctx ends.
func (m *PeriodicTaskManager) getConfigs(ctx context.Context) ([]*PeriodicTaskConfig, error) {
	var configs []*PeriodicTaskConfig
	var failed error
	select {
	case err := <-worker.Isolate(func() { configs, failed = m.provider.GetConfigs() }):
		if err = cmp.Or(attemptError(err), failed); err != nil {
			return nil, fmt.Errorf("asynq: the provider of periodic tasks failed: %w", err)
		}
		return configs, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// apply unregisters and registers entries according to the plan. It unregisters first, so that in a
// group an entry whose MissedTicks has changed keeps its ID.
func (m *PeriodicTaskManager) apply(p *syncPlan) error {
	missing := make(map[string]int) // number of entries to register, by their config
	for _, e := range p.wanted {
		missing[e.config()]++
	}
	m.running = slices.DeleteFunc(m.running, func(r running) bool {
		missing[r.config]--
		if missing[r.config] >= 0 || p.keepAll || p.keep[r.task] {
			return false
		}
		_ = m.scheduler.Unregister(r.id) // it exists
		m.scheduler.log.Info("periodic task unregistered", "entry", r.id, "type", r.task.typename)
		return true
	})
	for _, e := range p.wanted {
		if missing[e.config()]--; missing[e.config()] < 0 {
			continue
		}
		id, err := m.scheduler.add(e)
		if err != nil {
			return err
		}
		m.scheduler.log.Info("periodic task registered", "entry", id, "type", e.task.typename, "spec", e.spec)
		m.running = append(m.running, running{id: id, config: e.config(), task: keyOf(e.task)})
	}
	return nil
}

// config returns all settings of the entry.
func (e *scheduled) config() string { return fmt.Sprintf("%v %s", e.missed, e.identity) }
