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
)

// provider is one whose answer tests set.
type provider struct {
	mu      sync.Mutex
	configs []*asynq.PeriodicTaskConfig
	err     error
	panics  any
	block   chan struct{} // waited for, if set
	asked   int
}

func (p *provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	p.mu.Lock()
	block := p.block
	p.asked++
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
	return p.asked
}

// periodic is a config of a task of that type.
func periodic(typename string, opts ...asynq.Option) *asynq.PeriodicTaskConfig {
	return &asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask(typename, nil), Opts: opts}
}

// manager returns a manager that is shut down when the test ends.
func (s *site) manager(p asynq.PeriodicTaskConfigProvider, opts asynq.SchedulerOpts, interval time.Duration) *asynq.PeriodicTaskManager {
	s.t.Helper()
	opts.Logger = asynq.NewSlogLogger(slog.New(s.log))
	m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: p, RedisConnOpt: s.opt(), SchedulerOpts: &opts, SyncInterval: interval,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(m.Shutdown)
	return m
}

func TestPeriodicTaskManagerSyncs(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{}
		p.set(nil, nil, periodic("a"), periodic("b"), periodic("b"))
		m := s.manager(p, asynq.SchedulerOpts{}, time.Hour)
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
					t.Errorf("%s: an unchanged entry is gone", what)
				}
			}
			if len(got) != want {
				t.Errorf("%s: %d entries, want %d", what, len(got), want)
			}
			for _, id := range ids {
				if slices.Contains(got, id) && !slices.Contains(kept, id) {
					t.Errorf("%s: a changed entry is still there", what)
				}
			}
			ids = got
		}
		sync("another order", 3, ids, periodic("b"), periodic("a"), periodic("b"))
		sync("one twin less", 2, ids[:2], periodic("b"), periodic("a"))
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
				t.Errorf("%s: %v became %v", what, before, after)
			}
			ids = after
		}
		sync("all gone", 0, nil)
	})
}

// Whatever goes wrong, what runs goes on.
func TestPeriodicTaskManagerKeeps(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{}
		p.set(nil, nil, periodic("a"), periodic("b"))
		m := s.manager(p, asynq.SchedulerOpts{}, time.Hour)
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
					t.Errorf("%s: an entry is gone", what)
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
		if s.log.count("not synced", "the database is down") != 1 || s.log.count("not synced", "boom") != 1 {
			t.Error("the failures are not logged")
		}

		broken := periodic("a")
		broken.Cronspec = "61 * * * *"
		p.set(nil, nil, broken, periodic("c"))
		check("an invalid form of a", 2, ids[0]) // b goes, c comes
		if s.log.count("config is invalid", "61 * * * *") != 1 {
			t.Error("the invalid config is not logged")
		}
		p.set(nil, nil, nil)
		check("nil", 2, ids[0])
		p.set(nil, nil, &asynq.PeriodicTaskConfig{Cronspec: "@daily"}, periodic("d"))
		check("no task", 3, ids[0])
		p.set(nil, nil, periodic("a"), periodic("d"))
		check("all is well again", 2, ids[0])
	})
}

func TestPeriodicTaskManagerStart(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{}
		failure := errors.New("the database is down")
		p.set(failure, nil)
		m := s.manager(p, asynq.SchedulerOpts{}, time.Hour)
		if err := m.Start(); !errors.Is(err, failure) {
			t.Errorf("provider fails: %v", err)
		}
		p.set(nil, "boom")
		if err := m.Start(); !asynq.IsPanicError(err) {
			t.Errorf("provider panics: %v", err)
		}
		broken := periodic("a")
		broken.Cronspec = "61 * * * *"
		p.set(nil, nil, broken, periodic("b"))
		if err := m.Start(); err == nil || !strings.Contains(err.Error(), "61 * * * *") {
			t.Errorf("invalid config: %v", err)
		}
		if ids := m.Scheduler().EntryIDs(); len(ids) != 0 {
			t.Errorf("entries after failed starts: %v", ids)
		}
		p.set(nil, nil, periodic("b"))
		if err := m.Start(); err != nil {
			t.Error(err)
		}
		if err := m.Start(); err == nil {
			t.Error("it starts twice")
		}
		s.eventually(func() bool { return len(s.entries()) == 1 }, "the entry")
		m.Shutdown()
		m.Shutdown()
		if err := m.Start(); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("start after shutdown: %v", err)
		}
		if len(s.entries()) != 0 {
			t.Error("entries are left")
		}
	})
}

// Neither a start nor a shutdown waits for a provider that hangs once the shutdown has come.
func TestPeriodicTaskManagerProviderHangs(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{block: make(chan struct{})}
		m := s.manager(p, asynq.SchedulerOpts{}, time.Hour)
		started := make(chan error, 1)
		go func() { started <- m.Start() }()
		s.eventually(func() bool { return p.times() == 1 }, "the provider to be asked")
		m.Shutdown()
		if err := receive(s, started, "the start to end"); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("error %v", err)
		}
		close(p.block)
	})
}

func TestPeriodicTaskManagerAsksAgain(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{}
		m := s.manager(p, asynq.SchedulerOpts{HeartbeatInterval: 10 * time.Millisecond}, 10*time.Millisecond)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		p.set(nil, nil, periodic("a"))
		s.eventually(func() bool { return len(s.entries()) == 1 }, "the new task")
		p.set(nil, nil)
		s.eventually(func() bool { return len(s.entries()) == 0 }, "the task to go")
	})
}

// Managers of a group agree on the entries' IDs; only one publishes.
func TestPeriodicTaskManagersOfAGroup(t *testing.T) {
	everywhere(t, func(s *site) {
		p := &provider{}
		policy := periodic("b")
		policy.MissedTicks = asynq.EnqueueAllMissed
		p.set(nil, nil, periodic("a"), policy)
		a := s.manager(p, asynq.SchedulerOpts{Group: "g"}, time.Hour)
		b := s.manager(p, asynq.SchedulerOpts{Group: "g"}, time.Hour)
		for _, m := range []*asynq.PeriodicTaskManager{a, b} {
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if x, y := a.Scheduler().EntryIDs(), b.Scheduler().EntryIDs(); !slices.Equal(x, y) {
			t.Errorf("the IDs are %v and %v", x, y)
		}
		s.eventually(func() bool { return len(s.entries()) == 2 }, "the entries")
		if n := len(s.keys("asynq:schedulers:*}")); n != 1 {
			t.Errorf("%d schedulers publish", n)
		}
		// Another policy is another entry with the same ID.
		before := a.Scheduler().EntryIDs()
		p.set(nil, nil, periodic("b"), periodic("a"))
		a.Sync()
		if after := a.Scheduler().EntryIDs(); !slices.Equal(before, after) {
			t.Errorf("%v became %v", before, after)
		}
	})
}

func TestNewPeriodicTaskManagerRefuses(t *testing.T) {
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
	everywhere(t, func(s *site) {
		for range 20 {
			p := &provider{}
			p.set(nil, nil, periodic("a"))
			m := s.manager(p, asynq.SchedulerOpts{}, time.Millisecond)
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					if i%2 == 0 {
						_ = m.Start() // fails where another was first
					} else {
						m.Shutdown()
					}
				})
			}
			wg.Wait()
			m.Shutdown()
		}
		if left := s.keys("asynq:schedulers*"); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}
