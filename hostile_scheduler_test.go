package asynq_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// hostileSpecs are no cron specs.
var hostileSpecs = append([]string{
	"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "-1 * * * *", "*/0 * * * *",
	"0 0 30 2 *", "99999999999999999999 * * * *", "@every", "@every 0s", "@every -1h", "@every 1", "@every 999999999999h", "@reboot", "@",
	"TZ=UTC", "CRON_TZ=", "CRON_TZ=Nowhere/Land * * * * *", "CRON_TZ=../../etc/passwd * * * * *", "TZ=UTC TZ=UTC * * * * *", notUTF8,
	"* * * * *\x00", "*\xff * * * *", strings.Repeat("*,", 1<<12) + "* * * * *" + "x",
}, unusualNames...)

var hostileScheduler = map[string]func(h *hostile){
	"NewScheduler": func(h *hostile) {
		h.panics("RedisConnOpt is nil", func() { asynq.NewScheduler(nil, nil) })
		for _, group := range []string{" ", "{", "a}b"} {
			h.panics("SchedulerOpts.Group", func() { asynq.NewScheduler(h.opt(), &asynq.SchedulerOpts{Group: group}) })
		}
		for _, missed := range []asynq.MissedTicks{-1, 4, math.MaxInt, math.MinInt} {
			h.panics("is none of SkipMissed", func() { asynq.NewScheduler(h.opt(), &asynq.SchedulerOpts{MissedTicks: missed}) })
		}
		for _, interval := range []time.Duration{mostNegtive, longest} {
			s := asynq.NewSchedulerFromRedisClient(h.redis, &asynq.SchedulerOpts{HeartbeatInterval: interval, Logger: quiet()})
			id, err := s.Register("@every 876000h", asynq.NewTask("t", nil))
			h.taken(err)
			h.taken(s.Start())
			h.eventually(func() bool {
				entries, err := h.inspect.SchedulerEntries()
				return err == nil && len(entries) == 1 && entries[0].ID == id
			}, "the entry to be published under a heartbeat of %v", interval)
			s.Shutdown()
		}
	},
	"NewSchedulerFromRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewSchedulerFromRedisClient(nil, nil) })
	},
	"Scheduler.Register": func(h *hostile) {
		for _, opts := range []*asynq.SchedulerOpts{nil, {Group: "g\n\x00" + notUTF8}} {
			s := asynq.NewSchedulerFromRedisClient(h.redis, opts)
			for _, spec := range hostileSpecs {
				_, err := s.Register(spec, asynq.NewTask("t", nil))
				h.refused(err, nil, "cron spec")
			}
			for _, refused := range refusedTasks {
				_, err := s.Register("@daily", refused.task, refused.opts...)
				h.refused(err, nil, refused.says)
			}
			h.want(len(s.EntryIDs()) == 0, "%d refused entries are there", len(s.EntryIDs()))
			s.Shutdown()
			_, err := s.Register("@daily", asynq.NewTask("t", nil))
			h.refused(err, asynq.ErrSchedulerClosed)
		}
	},
	"Scheduler.RegisterConfig": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, nil)
		defer s.Shutdown()
		for _, cfg := range []asynq.PeriodicTaskConfig{
			{}, {Cronspec: "@daily"}, {Task: asynq.NewTask("t", nil)}, {Cronspec: "@daily", Task: asynq.NewTask("t", nil), MissedTicks: -1},
		} {
			_, err := s.RegisterConfig(cfg)
			h.refused(err, nil)
		}
	},
	"Scheduler.Unregister": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, nil)
		defer s.Shutdown()
		for _, id := range queueless() {
			h.refused(s.Unregister(id), asynq.ErrSchedulerEntryNotFound)
		}
	},
	"Scheduler.Ping": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, nil)
		h.taken(s.Ping())
		s.Shutdown()
		h.refused(s.Ping(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Start": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, &asynq.SchedulerOpts{Logger: quiet()})
		h.taken(s.Start())
		h.refused(s.Start(), nil, "already running")
		s.Shutdown()
		h.refused(s.Start(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Run": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, nil)
		s.Shutdown()
		h.refused(s.Run(), asynq.ErrSchedulerClosed)
	},
	"Scheduler.Shutdown": func(h *hostile) {
		s := asynq.NewSchedulerFromRedisClient(h.redis, nil)
		s.Shutdown()
		s.Shutdown()
	},
	"NewPeriodicTaskManager": func(h *hostile) {
		provider := configs{func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil }}
		for words, opts := range map[string]asynq.PeriodicTaskManagerOpts{
			"no PeriodicTaskConfigProvider": {RedisConnOpt: h.opt()},
			"needs a RedisConnOpt":          {PeriodicTaskConfigProvider: provider},
			"namespace":                     {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.WithNamespace(h.opt(), "{")},
			"returned nil":                  {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.SharedRedisClient(nil)},
			"RedisConnOpt is nil":           {PeriodicTaskConfigProvider: provider, RedisConnOpt: asynq.WithNamespace(nil, "x")},
			"must return a redis.Universal": {PeriodicTaskConfigProvider: provider, RedisConnOpt: oddConn{}},
			"SchedulerOpts.Group": {
				PeriodicTaskConfigProvider: provider, RedisConnOpt: h.opt(), SchedulerOpts: &asynq.SchedulerOpts{Group: "{"},
			},
		} {
			m, err := asynq.NewPeriodicTaskManager(opts)
			h.refused(err, nil, words)
			h.want(m == nil, "there is no manager")
		}
	},
	"PeriodicTaskManager.Start": func(h *hostile) {
		for words, provide := range map[string]func() ([]*asynq.PeriodicTaskConfig, error){
			"no luck":         func() ([]*asynq.PeriodicTaskConfig, error) { return nil, errors.New("no luck") },
			"panic: no order": func() ([]*asynq.PeriodicTaskConfig, error) { panic("no order") },
			"config 0 is nil": func() ([]*asynq.PeriodicTaskConfig, error) { return []*asynq.PeriodicTaskConfig{nil}, nil },
			"cron spec":       func() ([]*asynq.PeriodicTaskConfig, error) { return []*asynq.PeriodicTaskConfig{{}}, nil },
			"task must not be": func() ([]*asynq.PeriodicTaskConfig, error) {
				return []*asynq.PeriodicTaskConfig{{Cronspec: "@daily"}}, nil
			},
		} {
			m := h.manager(mostNegtive, provide)
			h.refused(m.Start(), nil, words)
			m.Shutdown()
			h.refused(m.Start(), asynq.ErrSchedulerClosed)
		}
		m := h.manager(longest, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil })
		h.taken(m.Start())
		m.Shutdown()
	},
	"PeriodicTaskManager.Run": func(h *hostile) {
		m := h.manager(0, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, errors.New("no luck") })
		h.refused(m.Run(), nil, "no luck")
		m.Shutdown()
		h.refused(m.Run(), asynq.ErrSchedulerClosed)
	},
	"PeriodicTaskManager.Shutdown": func(h *hostile) {
		m := h.manager(0, func() ([]*asynq.PeriodicTaskConfig, error) { return nil, nil })
		m.Shutdown()
		m.Shutdown()
	},
}

// configs is a provider made of a function.
type configs struct {
	get func() ([]*asynq.PeriodicTaskConfig, error)
}

func (c configs) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return c.get() }

func (h *hostile) manager(interval time.Duration, get func() ([]*asynq.PeriodicTaskConfig, error)) *asynq.PeriodicTaskManager {
	h.t.Helper()
	m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: configs{get}, RedisUniversalClient: h.redis, SyncInterval: interval,
		SchedulerOpts: &asynq.SchedulerOpts{HeartbeatInterval: interval, Logger: quiet()},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// TestHostileEntry has an entry enqueued whose names are unusual, in a group of schedulers whose name is.
func TestHostileEntry(t *testing.T) {
	everywhere(t, func(s *site) {
		scheduler := asynq.NewScheduler(s.opt(), &asynq.SchedulerOpts{Group: "gr\x00up\n" + notUTF8, Logger: quiet()})
		want := make(map[string]bool)
		for _, name := range unusualNames {
			task := asynq.NewTaskWithHeaders(name, []byte(notUTF8), map[string]string{name: name})
			if _, err := scheduler.RegisterFast(50*time.Millisecond, asynq.SkipMissed, task, asynq.Queue(name), asynq.Retention(longest)); err != nil {
				s.t.Fatalf("%q: %v", name, err)
			}
			want[name] = true
		}
		if err := scheduler.Start(); err != nil {
			s.t.Fatal(err)
		}
		inspect := s.inspector()
		var entries []*asynq.SchedulerEntry
		s.eventually(func() bool {
			entries, _ = inspect.SchedulerEntries()
			return len(entries) == len(want)
		}, "all entries")
		for _, e := range entries {
			name := e.Task.Type()
			if !want[name] || e.Task.Headers()[name] != name || string(e.Task.Payload()) != notUTF8 || len(e.Opts) != 2 {
				s.t.Errorf("entry %+v is not as it was registered", e)
			}
			s.eventually(func() bool {
				tasks, err := inspect.ListPendingTasks(name)
				return err == nil && len(tasks) > 0 && tasks[0].Type == name
			}, "a tick of %q", name)
			if info, err := inspect.RunSchedulerEntry(context.Background(), e.ID); err != nil || info.Queue != name {
				s.t.Errorf("run entry of %q: %+v, %v", name, info, err)
			}
			if events, err := inspect.ListSchedulerEnqueueEvents(e.ID); err != nil || len(events) == 0 {
				s.t.Errorf("the entry of %q has %d events, error %v", name, len(events), err)
			}
		}
		scheduler.Shutdown()
		for name := range want {
			if err := inspect.DeleteQueue(name, true); err != nil {
				s.t.Errorf("delete queue %q: %v", name, err)
			}
		}
	})
}
