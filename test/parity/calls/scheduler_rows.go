package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

func schedulerOpts() *asynq.SchedulerOpts {
	return &asynq.SchedulerOpts{Logger: newQuiet(), HeartbeatInterval: time.Second}
}

// configs is a provider of periodic task configs.
type configs struct {
	all []*asynq.PeriodicTaskConfig
	err error
}

func (c configs) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return c.all, c.err }

func addSchedulerRows() {
	task := func() *asynq.Task { return asynq.NewTask("type", []byte("payload")) }
	for _, steps := range sequences("Start", "Shutdown", "Register", "Ping", "Unregister") {
		add("Scheduler: "+strings.Join(steps, ", "), func(s *site) {
			s.noDump = true
			sched := asynq.NewScheduler(s.opt(), schedulerOpts())
			for i, step := range steps {
				s.at(fmt.Sprintf("%d", i+1))
				s.guard("", func() {
					switch step {
					case "Start":
						s.err(sched.Start())
					case "Shutdown":
						sched.Shutdown()
					case "Register":
						id, err := sched.Register("@every 1h", task())
						s.err(err)
						s.see("has an ID", id != "")
					case "Ping":
						s.err(sched.Ping())
					case "Unregister":
						s.err(sched.Unregister("unknown"))
					}
				})
			}
		})
	}
	specs := []string{"@every 1s", "@every 1h", "@every 0s", "@every -1s", "@every 500ms", "@every 1500ms", "@every x", "@daily", "@hourly",
		"@weekly", "@monthly", "@yearly", "@annually", "@midnight", "@reboot", "* * * * *", "*/5 * * * *", "0 9 * * 1-5", "0 0 9 * * *",
		"60 * * * *", "* 24 * * *", "0 0 31 2 *", "", " ", "x", "* * * *", "@", "TZ=Asia/Tokyo 0 9 * * *", "CRON_TZ=Asia/Tokyo 0 9 * * *",
		"CRON_TZ=Nowhere/Else 0 9 * * *", "CRON_TZ=UTC", "0 9 * JAN MON", "? ? ? ? ?", "0 9 1-5/2 * *", "1,2,3 * * * *", "5-1 * * * *", "*/0 * * * *",
		" @daily ", " * * * * * ", "@EVERY 1s", "0 0 * * 7"}
	for _, spec := range specs {
		add(fmt.Sprintf("Scheduler.Register(%q)", spec), func(s *site) {
			sched := asynq.NewScheduler(s.opt(), schedulerOpts())
			id, err := sched.Register(spec, task())
			s.err(err)
			s.see("has an ID", id != "")
		})
	}
	for _, o := range options() {
		add("Scheduler.Register(…, "+o.text+")", func(s *site) {
			sched := asynq.NewScheduler(s.opt(), schedulerOpts())
			id, err := sched.Register("@every 1h", task(), o.make(s.start))
			s.err(err)
			s.see("has an ID", id != "")
		})
	}
	register := func(name string, t *asynq.Task) {
		add("Scheduler.Register(…, "+name+")", func(s *site) {
			id, err := asynq.NewScheduler(s.opt(), schedulerOpts()).Register("@every 1h", t)
			s.err(err)
			s.see("has an ID", id != "")
		})
	}
	register("nil task", nil)
	register("task without a type", asynq.NewTask("", nil))
	register("task with a blank type", asynq.NewTask(" ", nil))
	add("Scheduler.Unregister", func(s *site) {
		sched := asynq.NewScheduler(s.opt(), schedulerOpts())
		id, err := sched.Register("@every 1h", task())
		s.err(err)
		s.at("first")
		s.err(sched.Unregister(id))
		s.at("second")
		s.err(sched.Unregister(id))
		s.at("empty")
		s.err(sched.Unregister(""))
	})
	add("Scheduler.Register the same twice", func(s *site) {
		sched := asynq.NewScheduler(s.opt(), schedulerOpts())
		a, err := sched.Register("@every 1h", task())
		s.err(err)
		b, err := sched.Register("@every 1h", task())
		s.err(err)
		s.see("same ID", a == b)
	})
	add("Scheduler, Redis down", func(s *site) {
		sched := asynq.NewScheduler(asynq.RedisClientOpt{Addr: unreachable}, schedulerOpts())
		s.at("ping")
		s.err(sched.Ping())
		s.at("register")
		_, err := sched.Register("@every 1h", task())
		s.err(err)
		s.at("start")
		s.err(sched.Start())
		sched.Shutdown()
	})
	add("NewScheduler(…, nil)", func(s *site) { s.see("is nil", asynq.NewScheduler(s.opt(), nil) == nil) })
	add("NewScheduler(nil)", func(s *site) { s.see("is nil", asynq.NewScheduler(nil, nil) == nil) })
	add("NewScheduler(an option that makes no client)", func(s *site) { s.see("is nil", asynq.NewScheduler(strange{}, nil) == nil) })
	add("NewSchedulerFromRedisClient(nil)", func(s *site) { s.see("is nil", asynq.NewSchedulerFromRedisClient(nil, nil) == nil) })
	for name, o := range map[string]asynq.SchedulerOpts{
		"HeartbeatInterval: -1": {HeartbeatInterval: -1}, "HeartbeatInterval: 1": {HeartbeatInterval: 1}, "LogLevel: 99": {LogLevel: 99}, "LogLevel: -1": {LogLevel: -1},
	} {
		add("NewScheduler({"+name+"})", func(s *site) {
			o.Logger = newQuiet()
			s.see("is nil", asynq.NewScheduler(s.opt(), &o) == nil)
		})
	}
	add("a Scheduler as the Inspector shows it", func(s *site) {
		s.noDump = true
		sched := asynq.NewScheduler(s.opt(), schedulerOpts())
		_, err := sched.Register("@every 1h", asynq.NewTask("type", []byte("payload")), asynq.Queue("low"), asynq.MaxRetry(3), asynq.Unique(time.Hour))
		s.err(err)
		s.err(sched.Start())
		i := s.inspector()
		s.until("the entry is seen", func() bool {
			entries, err := i.SchedulerEntries()
			return err != nil || len(entries) > 0
		})
		s.at("entries")
		s.result(i.SchedulerEntries())
		s.at("after Shutdown")
		sched.Shutdown()
		s.result(i.SchedulerEntries())
	})
	add("a Scheduler whose entries have options of the task", func(s *site) {
		s.noDump = true
		sched := asynq.NewScheduler(s.opt(), schedulerOpts())
		_, err := sched.Register("@every 1h", asynq.NewTask("type", nil, asynq.Queue("low"), asynq.Timeout(time.Minute)), asynq.MaxRetry(3))
		s.err(err)
		s.err(sched.Start())
		i := s.inspector()
		s.until("the entry is seen", func() bool {
			entries, err := i.SchedulerEntries()
			return err != nil || len(entries) > 0
		})
		s.at("entries")
		s.result(i.SchedulerEntries())
		sched.Shutdown()
	})
	tick := func(name string, t *asynq.Task, opts ...asynq.Option) {
		add("a tick of "+name, func(s *site) {
			s.noDump = true
			o := schedulerOpts()
			done := make(chan struct{})
			var before, failed, after sync.Once // only the first tick counts: the number of ticks depends on timing
			var over atomic.Bool
			o.PreEnqueueFunc = func(t *asynq.Task, opts []asynq.Option) {
				before.Do(func() {
					s.see("PreEnqueueFunc", t.Type())
					s.see("its options", opts)
				})
			}
			//nolint:staticcheck // deprecated fields are compared, too
			o.EnqueueErrorHandler = func(t *asynq.Task, opts []asynq.Option, err error) {
				if over.Load() {
					return
				}
				failed.Do(func() {
					s.see("EnqueueErrorHandler", t.Type())
					s.see("its options", opts)
					s.err(err)
				})
			}
			o.PostEnqueueFunc = func(info *asynq.TaskInfo, err error) {
				over.Store(true)
				after.Do(func() {
					s.result(info, err)
					close(done)
				})
			}
			sched := asynq.NewScheduler(s.opt(), o)
			if _, err := sched.Register("@every 1s", t, opts...); err != nil {
				s.at("register")
				s.err(err)
				return
			}
			if err := sched.Start(); err != nil {
				s.at("start")
				s.err(err)
				return
			}
			<-done
			sched.Shutdown()
		})
	}
	tick("a task", task())
	tick("a task with options", asynq.NewTask("type", nil, asynq.MaxRetry(3)), asynq.Queue("low"), asynq.TaskID("id"))
	tick("an entry with Unique(0)", task(), asynq.Unique(0))
	tick("an entry with an empty queue name", task(), asynq.Queue(""))
	tick("an entry with ProcessIn", task(), asynq.ProcessIn(time.Hour))
	tick("an entry with a group", task(), asynq.Group("g"))

	add("a tick whose PreEnqueueFunc sets a header", func(s *site) {
		s.noDump = true
		o, done := schedulerOpts(), make(chan *asynq.TaskInfo, 100)
		o.PreEnqueueFunc = func(t *asynq.Task, _ []asynq.Option) { t.Headers()["trace"] = "1" }
		o.PostEnqueueFunc = func(info *asynq.TaskInfo, _ error) { done <- info }
		sched := asynq.NewScheduler(s.opt(), o)
		_, err := sched.Register("@every 1s", asynq.NewTaskWithHeaders("type", nil, map[string]string{"k": "v"}))
		s.err(err)
		s.err(sched.Start())
		s.see("Headers", (<-done).Headers)
		sched.Shutdown()
	})

	managers := map[string]asynq.PeriodicTaskManagerOpts{
		"nothing":                 {},
		"no provider":             {RedisConnOpt: asynq.RedisClientOpt{Addr: unreachable}},
		"no connection":           {PeriodicTaskConfigProvider: configs{}},
		"all that it must have":   {PeriodicTaskConfigProvider: configs{}, RedisConnOpt: asynq.RedisClientOpt{Addr: unreachable}},
		"SyncInterval: -1":        {PeriodicTaskConfigProvider: configs{}, RedisConnOpt: asynq.RedisClientOpt{Addr: unreachable}, SyncInterval: -1},
		"SyncInterval: 1":         {PeriodicTaskConfigProvider: configs{}, RedisConnOpt: asynq.RedisClientOpt{Addr: unreachable}, SyncInterval: 1},
		"a connection of no kind": {PeriodicTaskConfigProvider: configs{}, RedisConnOpt: strange{}},
	}
	for _, name := range sortedKeys(managers) {
		add("NewPeriodicTaskManager({"+name+"})", func(s *site) {
			m, err := asynq.NewPeriodicTaskManager(managers[name])
			s.err(err)
			s.see("is nil", m == nil)
		})
	}
	providers := map[string]configs{
		"nothing":                         {},
		"an error":                        {err: errors.New("failed")},
		"an entry":                        {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task()}}},
		"an entry with options":           {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task(), Opts: []asynq.Option{asynq.Queue("low")}}}},
		"an entry twice":                  {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task()}, {Cronspec: "@every 1h", Task: task()}}},
		"two entries":                     {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task()}, {Cronspec: "@every 2h", Task: task()}}},
		"an entry with a bad spec":        {all: []*asynq.PeriodicTaskConfig{{Cronspec: "bad", Task: task()}}},
		"an entry with an empty spec":     {all: []*asynq.PeriodicTaskConfig{{Cronspec: "", Task: task()}}},
		"an entry without a task":         {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h"}}},
		"an entry without a type":         {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: asynq.NewTask("", nil)}}},
		"nil":                             {all: []*asynq.PeriodicTaskConfig{nil}},
		"an entry with a nil option":      {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task(), Opts: []asynq.Option{nil}}}},
		"an entry with an empty queue":    {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task(), Opts: []asynq.Option{asynq.Queue("")}}}},
		"a good entry and one that isn't": {all: []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1h", Task: task()}, {Cronspec: "bad", Task: task()}}},
	}
	for _, name := range sortedKeys(providers) {
		add("PeriodicTaskManager whose provider returns "+name, func(s *site) {
			s.noDump = true
			m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
				PeriodicTaskConfigProvider: providers[name], RedisConnOpt: s.opt(), SchedulerOpts: schedulerOpts(), SyncInterval: time.Hour})
			s.err(err)
			s.at("start")
			err = m.Start()
			s.err(err)
			if err != nil {
				return
			}
			s.at("entries")
			want := name != "an entry with a bad spec" && (strings.HasPrefix(name, "an entry") || strings.HasPrefix(name, "two") || strings.HasPrefix(name, "a good"))
			i := s.inspector()
			if want {
				s.until("an entry is seen", func() bool {
					entries, err := i.SchedulerEntries()
					return err != nil || len(entries) > 0
				})
			}
			entries, err := i.SchedulerEntries()
			s.err(err)
			s.see("number", len(entries))
			m.Shutdown()
		})
	}
	for _, steps := range sequences("Start", "Shutdown") {
		add("PeriodicTaskManager: "+strings.Join(steps, ", "), func(s *site) {
			s.noDump = true
			m, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
				PeriodicTaskConfigProvider: configs{}, RedisConnOpt: s.opt(), SchedulerOpts: schedulerOpts()})
			s.err(err)
			for i, step := range steps {
				s.at(fmt.Sprintf("%d", i+1))
				s.guard("", func() {
					if step == "Start" {
						s.err(m.Start())
					} else {
						m.Shutdown()
					}
				})
			}
		})
	}
}
