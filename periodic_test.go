package asynq_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// provider is a provider whose results the tests set.
type provider struct {
	mu      sync.Mutex
	configs []*asynq.PeriodicTaskConfig
	err     error
	panics  any
	block   chan struct{} // unless nil, GetConfigs waits until it is closed
	calls   int
}

func (p *provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	p.mu.Lock()
	block := p.block
	p.calls++
	p.mu.Unlock()
	if block != nil {
		<-block
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panics != nil {
		panic(p.panics)
	}
	return p.configs, p.err
}

func (p *provider) set(err error, panics any, configs ...*asynq.PeriodicTaskConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configs, p.err, p.panics = configs, err, panics
}

func (p *provider) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// periodic returns a daily config for a task type.
func periodic(typename string, opts ...asynq.Option) *asynq.PeriodicTaskConfig {
	return &asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask(typename, nil), Opts: opts}
}

// newManager returns a manager that is shut down when the test ends.
func newManager(env *testenv.Env, p asynq.PeriodicTaskConfigProvider, opts asynq.SchedulerOpts, interval time.Duration) *asynq.PeriodicTaskManager {
	env.T.Helper()
	opts.Logger = asynq.NewSlogLogger(slog.New(env.Log))
	m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: p, RedisConnOpt: env.Opt(), SchedulerOpts: &opts, SyncInterval: interval,
	})
	if err != nil {
		env.T.Fatal(err)
	}
	env.T.Cleanup(m.Shutdown)
	return m
}

func TestPeriodicTaskManagerSyncs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{}
		p.set(nil, nil, periodic("a"), periodic("b"), periodic("b"))
		m := newManager(env, p, asynq.SchedulerOpts{}, time.Hour)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		ids := m.Scheduler().EntryIDs()
		sync := func(what string, want int, kept []string, configs ...*asynq.PeriodicTaskConfig) {
			t.Helper()
			p.set(nil, nil, configs...)
			m.Sync()
			got := m.Scheduler().EntryIDs()
			for _, id := range kept {
				if !slices.Contains(got, id) {
					t.Errorf("%s: removed an unchanged entry", what)
				}
			}
			if len(got) != want {
				t.Errorf("%s: %d entries, want %d", what, len(got), want)
			}
			for _, id := range ids {
				if slices.Contains(got, id) && !slices.Contains(kept, id) {
					t.Errorf("%s: kept a changed entry", what)
				}
			}
			ids = got
		}
		sync("another order", 3, ids, periodic("b"), periodic("a"), periodic("b"))
		sync("one duplicate less", 2, ids[:2], periodic("b"), periodic("a"))
		sync("options", 2, ids[1:], periodic("a", asynq.MaxRetry(1), asynq.Queue("q")), periodic("b"))
		sync("options in another order", 2, ids, periodic("a", asynq.Queue("q"), asynq.MaxRetry(1)), periodic("b"))
		for what, change := range map[string]func(c *asynq.PeriodicTaskConfig){
			"spec":     func(c *asynq.PeriodicTaskConfig) { c.Cronspec = "@hourly" },
			"location": func(c *asynq.PeriodicTaskConfig) { c.Location = time.FixedZone("x", 60) },
			"payload":  func(c *asynq.PeriodicTaskConfig) { c.Task = asynq.NewTask("a", []byte("p")) },
			"empty":    func(c *asynq.PeriodicTaskConfig) { c.Task = asynq.NewTask("a", []byte{}) },
			"headers": func(c *asynq.PeriodicTaskConfig) {
				c.Task = asynq.NewTaskWithHeaders("a", nil, map[string]string{"h": "1"})
			},
			"task's": func(c *asynq.PeriodicTaskConfig) { c.Task = asynq.NewTask("a", nil, asynq.MaxRetry(2)) },
		} {
			changed := periodic("a")
			change(changed)
			p.set(nil, nil, changed, periodic("b"))
			before := m.Scheduler().EntryIDs()
			m.Sync()
			after := m.Scheduler().EntryIDs()
			if len(after) != 2 || slices.Equal(before, after) || !slices.ContainsFunc(after, func(id string) bool { return slices.Contains(before, id) }) {
				t.Errorf("%s: the IDs changed from %v to %v", what, before, after)
			}
			ids = after
		}
		sync("no configs", 0, nil)
	})
}

// Failed syncs and invalid configs keep the running entries.
func TestPeriodicTaskManagerKeepsEntries(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{}
		p.set(nil, nil, periodic("a"), periodic("b"))
		m := newManager(env, p, asynq.SchedulerOpts{}, time.Hour)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		ids := m.Scheduler().EntryIDs()
		check := func(what string, want int, kept ...string) {
			t.Helper()
			m.Sync()
			got := m.Scheduler().EntryIDs()
			for _, id := range kept {
				if !slices.Contains(got, id) {
					t.Errorf("%s: removed an entry", what)
				}
			}
			if len(got) != want {
				t.Errorf("%s: %d entries, want %d", what, len(got), want)
			}
		}
		p.set(errors.New("the database is down"), nil)
		check("error", 2, ids...)
		p.set(nil, "boom")
		check("panic", 2, ids...)
		if env.Log.Count("could not update", "the database is down") != 1 || env.Log.Count("could not update", "boom") != 1 {
			t.Error("the failures were not logged")
		}

		broken := periodic("a")
		broken.Cronspec = "61 * * * *"
		p.set(nil, nil, broken, periodic("c"))
		check("invalid config of a", 2, ids[0]) // b is removed, c is added
		if env.Log.Count("invalid config", "61 * * * *") != 1 {
			t.Error("the invalid config was not logged")
		}
		p.set(nil, nil, nil)
		check("nil", 2, ids[0])
		p.set(nil, nil, &asynq.PeriodicTaskConfig{Cronspec: "@daily"}, periodic("d"))
		check("no task", 3, ids[0])
		p.set(nil, nil, periodic("a"), periodic("d"))
		check("valid configs again", 2, ids[0])
	})
}

func TestPeriodicTaskManagerStart(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{}
		failure := errors.New("the database is down")
		p.set(failure, nil)
		m := newManager(env, p, asynq.SchedulerOpts{}, time.Hour)
		if err := m.Start(); !errors.Is(err, failure) {
			t.Errorf("provider failed: %v", err)
		}
		p.set(nil, "boom")
		if err := m.Start(); !asynq.IsPanicError(err) {
			t.Errorf("provider panicked: %v", err)
		}
		for what, incomplete := range map[string]*asynq.PeriodicTaskConfig{
			"nil": nil, "no task": {Cronspec: "@daily"}, "no cron spec": {Task: asynq.NewTask("a", nil)},
		} {
			p.set(nil, nil, incomplete, periodic("b"))
			if err := m.Start(); err == nil {
				t.Errorf("started with an invalid config: %s", what)
			}
		}
		if ids := m.Scheduler().EntryIDs(); len(ids) != 0 {
			t.Errorf("entries after failed starts: %v", ids)
		}
		broken, typeless := periodic("a"), periodic("")
		broken.Cronspec = "61 * * * *"
		p.set(nil, nil, broken, typeless, periodic("b"))
		if err := m.Start(); err != nil {
			t.Error(err)
		}
		if ids := m.Scheduler().EntryIDs(); len(ids) != 1 {
			t.Errorf("entries %v, want only the valid one", ids)
		}
		if env.Log.Count("invalid config", "61 * * * *") != 1 || env.Log.Count("invalid config", "task type") != 1 {
			t.Error("the invalid configs were not logged")
		}
		if err := m.Start(); err == nil {
			t.Error("started twice")
		}
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the entry")
		m.Shutdown()
		m.Shutdown()
		if err := m.Start(); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("Start after Shutdown: %v", err)
		}
		if len(schedulerEntries(env)) != 0 {
			t.Error("entries left after Shutdown")
		}
	})
}

// After a call of Shutdown, neither Start nor Shutdown waits for a provider that hangs.
func TestPeriodicTaskManagerProviderHangs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{block: make(chan struct{})}
		m := newManager(env, p, asynq.SchedulerOpts{}, time.Hour)
		started := make(chan error, 1)
		go func() { started <- m.Start() }()
		env.Eventually(func() bool { return p.times() == 1 }, "a call of the provider")
		m.Shutdown()
		if err := testenv.Await(env, started, "Start to return"); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("Start: error %v, want ErrSchedulerClosed", err)
		}
		close(p.block)
	})
}

func TestPeriodicTaskManagerSyncsPeriodically(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{}
		m := newManager(env, p, asynq.SchedulerOpts{HeartbeatInterval: 10 * time.Millisecond}, 10*time.Millisecond)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		p.set(nil, nil, periodic("a"))
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the new entry")
		p.set(nil, nil)
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 0 }, "the entry to be removed")
	})
}

// Managers of a group have the same entry IDs. Only one of them publishes entries.
func TestPeriodicTaskManagersOfAGroup(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		p := &provider{}
		policy := periodic("b")
		policy.MissedTicks = asynq.EnqueueAllMissed
		p.set(nil, nil, periodic("a"), policy)
		a := newManager(env, p, asynq.SchedulerOpts{Group: "g"}, time.Hour)
		b := newManager(env, p, asynq.SchedulerOpts{Group: "g"}, time.Hour)
		for _, m := range []*asynq.PeriodicTaskManager{a, b} {
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if x, y := a.Scheduler().EntryIDs(), b.Scheduler().EntryIDs(); !slices.Equal(x, y) {
			t.Errorf("the managers have the IDs %v and %v", x, y)
		}
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 2 }, "the entries")
		if n := len(env.Keys("asynq:schedulers:*}")); n != 1 {
			t.Errorf("%d schedulers publish, want 1", n)
		}
		// A changed MissedTicks policy does not change the ID.
		before := a.Scheduler().EntryIDs()
		p.set(nil, nil, periodic("b"), periodic("a"))
		a.Sync()
		if after := a.Scheduler().EntryIDs(); !slices.Equal(before, after) {
			t.Errorf("the IDs changed from %v to %v", before, after)
		}
	})
}

func TestNewPeriodicTaskManagerRejects(t *testing.T) {
	t.Parallel()
	p := &provider{}
	opt := asynq.RedisClientOpt{}
	for name, opts := range map[string]asynq.PeriodicTaskManagerOpts{
		"no provider":   {RedisConnOpt: opt},
		"nil provider":  {RedisConnOpt: opt, PeriodicTaskConfigProvider: (*provider)(nil)},
		"no connection": {PeriodicTaskConfigProvider: p},
		"bad group":     {PeriodicTaskConfigProvider: p, RedisConnOpt: opt, SchedulerOpts: &asynq.SchedulerOpts{Group: "{"}},
	} {
		if _, err := asynq.NewPeriodicTaskManager(opts); err == nil || !strings.HasPrefix(err.Error(), "asynq: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestPeriodicTaskManagerLifecycleStress(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for range 20 {
			p := &provider{}
			p.set(nil, nil, periodic("a"))
			m := newManager(env, p, asynq.SchedulerOpts{}, time.Millisecond)
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					if i%2 == 0 {
						_ = m.Start() // fails unless it is the first
					} else {
						m.Shutdown()
					}
				})
			}
			wg.Wait()
			m.Shutdown()
		}
		if left := env.Keys("asynq:schedulers*"); len(left) != 0 {
			t.Errorf("keys left: %v", left)
		}
	})
}
