package hostile_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// hostileSpecs are invalid cron specs.
var hostileSpecs = append([]string{
	"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "-1 * * * *", "*/0 * * * *",
	"0 0 30 2 *", "99999999999999999999 * * * *", "@every", "@every 0s", "@every -1h", "@every 1", "@every 999999999999h", "@reboot", "@",
	"TZ=UTC", "CRON_TZ=", "CRON_TZ=Nowhere/Land * * * * *", "CRON_TZ=../../etc/passwd * * * * *", "TZ=UTC TZ=UTC * * * * *", notUTF8,
	"* * * * *\x00", "*\xff * * * *", strings.Repeat("*,", 1<<12) + "* * * * *" + "x",
}, unusualNames...)

var hostileScheduler = map[string]func(h *hostile){
	"NewScheduler": func(h *hostile) {
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewScheduler(nil, nil) })
		for _, group := range []string{" ", "{", "a}b"} {
			h.wantPanic("SchedulerOpts.Group", func() { asynq.NewScheduler(h.Opt(), &asynq.SchedulerOpts{Group: group}) })
		}
		for _, missed := range []asynq.MissedTicks{-1, 4, math.MaxInt, math.MinInt} {
			h.wantPanic("is none of SkipMissed", func() { asynq.NewScheduler(h.Opt(), &asynq.SchedulerOpts{MissedTicks: missed}) })
		}
		for _, interval := range []time.Duration{mostNegative, longest} {
			s := asynq.NewSchedulerFromRedisClient(h.RDB, &asynq.SchedulerOpts{HeartbeatInterval: interval, Logger: testenv.DiscardLogger()})
			id, err := s.Register("@every 876000h", asynq.NewTask("t", nil))
			h.noErr(err)
			h.noErr(s.Start())
			h.Eventually(func() bool {
				entries, err := h.inspect.SchedulerEntries()
				return err == nil && len(entries) == 1 && entries[0].ID == id
			}, "the entry to be published under a heartbeat of %v", interval)
			s.Shutdown()
		}
	},
	"NewSchedulerFromRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewSchedulerFromRedisClient(nil, nil) })
	},
	"Scheduler.Register": func(h *hostile) {
		for _, opts := range []*asynq.SchedulerOpts{nil, {Group: "g\n\x00" + notUTF8}} {
			s := asynq.NewSchedulerFromRedisClient(h.RDB, opts)
			for _, spec := range hostileSpecs {
				id, err := s.Register(spec, asynq.NewTask("t", nil))
				h.wantErr(err, nil, "cron spec")
				h.check(id == "", "the rejected entry has the ID %q", id)
			}
			for _, invalid := range invalidTasks {
				id, err := s.Register("@daily", invalid.task, invalid.opts...)
				h.wantErr(err, nil, invalid.text)
				h.check(id == "", "the rejected entry has the ID %q", id)
			}
		}
	},
	"Scheduler.RegisterConfig": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, nil)
		defer s.Shutdown()
		for _, cfg := range []asynq.PeriodicTaskConfig{
			{}, {Cronspec: "@daily"}, {Task: asynq.NewTask("t", nil)}, {Cronspec: "@daily", Task: asynq.NewTask("t", nil), MissedTicks: -1},
		} {
			_, err := s.RegisterConfig(cfg)
			h.wantErr(err, nil)
		}
	},
	"Scheduler.Unregister": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, nil)
		defer s.Shutdown()
		for _, id := range missingNames() {
			h.wantErr(s.Unregister(id), asynq.ErrSchedulerEntryNotFound)
		}
	},
	"Scheduler.Ping": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, nil)
		s.Shutdown()
		h.noErr(s.Ping())
		h.noErr(s.Start())
		s.Shutdown()
		h.wantErr(s.Ping(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Start": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, &asynq.SchedulerOpts{Logger: testenv.DiscardLogger()})
		h.noErr(s.Start())
		h.wantErr(s.Start(), nil, "already running")
		s.Shutdown()
		h.wantErr(s.Start(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Run": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, &asynq.SchedulerOpts{Logger: testenv.DiscardLogger()})
		h.noErr(s.Start())
		s.Shutdown()
		h.wantErr(s.Run(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Shutdown": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.RDB, nil)
		s.Shutdown()
		s.Shutdown()
	},
	"NewPeriodicTaskManager": func(h *hostile) {
		provider := configs{func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil }}
		for words, opts := range map[string]asynq.PeriodicTaskManagerOpts{
			"no PeriodicTaskConfigProvider": {RedisConnOpt: h.Opt()},
			"needs a RedisConnOpt":          {PeriodicTaskConfigProvider: provider},
			"namespace":                     {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.WithNamespace(h.Opt(), "{")},
			"returned nil":                  {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.SharedRedisClient(nil)},
			"RedisConnOpt is nil":           {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.WithNamespace(nil, "x")},
			"must return a redis.Universal": {PeriodicTaskConfigProvider: provider, RedisConnOpt: oddConn{}},
			"SchedulerOpts.Group": {
				PeriodicTaskConfigProvider: provider, RedisConnOpt: h.Opt(), SchedulerOpts: &asynq.SchedulerOpts{Group: "{"},
			},
		} {
			m, err := asynq.NewPeriodicTaskManager(opts)
			h.wantErr(err, nil, words)
			h.check(m == nil, "returned a manager and an error")
		}
	},
	"PeriodicTaskManager.Start": func(h *hostile) {
		for words, provide := range map[string]func() ([]*asynq.PeriodicTaskConfig, error){
			"provider failed":          func() ([]*asynq.PeriodicTaskConfig, error) { return nil, errors.New("provider failed") },
			"panic: provider panicked": func() ([]*asynq.PeriodicTaskConfig, error) { panic("provider panicked") },
			"config 0 is nil":          func() ([]*asynq.PeriodicTaskConfig, error) { return []*asynq.PeriodicTaskConfig{nil}, nil },
			"cron spec":                func() ([]*asynq.PeriodicTaskConfig, error) { return []*asynq.PeriodicTaskConfig{{}}, nil },
			"task must not be": func() ([]*asynq.PeriodicTaskConfig, error) {
				return []*asynq.PeriodicTaskConfig{{Cronspec: "@daily"}}, nil
			},
		} {
			m := h.newManager(mostNegative, provide)
			h.wantErr(m.Start(), nil, words)
			m.Shutdown()
			h.wantErr(m.Start(), asynq.ErrSchedulerClosed)
		}
		m := h.newManager(longest, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil })
		h.noErr(m.Start())
		m.Shutdown()
	},
	"PeriodicTaskManager.Run": func(h *hostile) {
		m := h.newManager(0, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, errors.New("provider failed") })
		h.wantErr(m.Run(), nil, "provider failed")
		m.Shutdown()
		h.wantErr(m.Run(), asynq.ErrSchedulerClosed)
	},
	"PeriodicTaskManager.Shutdown": func(h *hostile) {
		m := h.newManager(0, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil })
		m.Shutdown()
		m.Shutdown()
	},
}

// configs is a provider that calls a function.
type configs struct {
	get func() ([]*asynq.PeriodicTaskConfig, error)
}

func (c configs) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return c.get() }

func (h *hostile) newManager(interval time.Duration, get func() ([]*asynq.PeriodicTaskConfig, error)) *asynq.PeriodicTaskManager {
	h.T.Helper()
	m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: configs{get}, RedisUniversalClient: h.RDB, SyncInterval: interval,
		SchedulerOpts: &asynq.SchedulerOpts{HeartbeatInterval: interval, Logger: testenv.DiscardLogger()},
	})
	if err != nil {
		h.T.Fatal(err)
	}
	return m
}

// TestHostileEntry enqueues scheduler entries with unusual names, in a group with an unusual name.
func TestHostileEntry(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		scheduler := asynq.NewScheduler(env.Opt(), &asynq.SchedulerOpts{Group: "gr\x00up\n" + notUTF8, Logger: testenv.DiscardLogger()})
		want := make(map[string]bool)
		for _, name := range unusualNames {
			task := asynq.NewTaskWithHeaders(name, []byte(notUTF8), map[string]string{name: name})
			if _, err := scheduler.Register("@every 1s", task, asynq.Queue(name), asynq.Retention(longest)); err != nil {
				env.T.Fatalf("%q: %v", name, err)
			}
			want[name] = true
		}
		if err := scheduler.Start(); err != nil {
			env.T.Fatal(err)
		}
		inspect := env.Inspector()
		var entries []*asynq.SchedulerEntry
		env.Eventually(func() bool {
			entries, _ = inspect.SchedulerEntries()
			return len(entries) == len(want)
		}, "all entries")
		for _, e := range entries {
			name := e.Task.Type()
			if !want[name] || e.Task.Headers()[name] != name || string(e.Task.Payload()) != notUTF8 || len(e.Opts) != 2 {
				env.T.Errorf("entry %+v differs from the registered one", e)
			}
			env.Eventually(func() bool {
				tasks, err := inspect.ListPendingTasks(name)
				return err == nil && len(tasks) > 0 && tasks[0].Type == name
			}, "a tick of %q", name)
			if info, err := inspect.RunSchedulerEntry(context.Background(), e.ID); err != nil || info.Queue != name {
				env.T.Errorf("run entry of %q: %+v, %v", name, info, err)
			}
			if events, err := inspect.ListSchedulerEnqueueEvents(e.ID); err != nil || len(events) == 0 {
				env.T.Errorf("entry of %q: %d events, error %v", name, len(events), err)
			}
		}
		scheduler.Shutdown()
		for name := range want {
			if err := inspect.DeleteQueue(name, true); err != nil {
				env.T.Errorf("delete queue %q: %v", name, err)
			}
		}
	})
}
