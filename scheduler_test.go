package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // zones that the machine may lack

	"github.com/google/uuid"

	"github.com/asynq-go/asynq"
)

// crashableSchedulerEnv names the Redis of a scheduler that runs in a process of its own, to be killed.
const crashableSchedulerEnv = "ASYNQ_TEST_CRASHABLE_SCHEDULER"

// scheduler returns a scheduler that is shut down when the test ends.
func (s *site) scheduler(opt asynq.RedisConnOpt, opts asynq.SchedulerOpts) *asynq.Scheduler {
	opts.Logger = asynq.NewSlogLogger(slog.New(s.log))
	sched := asynq.NewScheduler(opt, &opts)
	s.t.Cleanup(sched.Shutdown)
	return sched
}

func (s *site) start(sched *asynq.Scheduler) {
	s.t.Helper()
	if err := sched.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// registerFast registers a task with ten ticks a second.
func (s *site) registerFast(sched *asynq.Scheduler, task *asynq.Task, opts ...asynq.Option) string {
	s.t.Helper()
	id, err := sched.RegisterFast(fast, asynq.MissedTicksDefault, task, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

const fast = 100 * time.Millisecond

// entries are those that are published.
func (s *site) entries() []*asynq.SchedulerEntry {
	s.t.Helper()
	entries, err := s.inspector().SchedulerEntries()
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

// history is the times at which an entry enqueued, the newest first.
func (s *site) history(id string) []*asynq.SchedulerEnqueueEvent {
	s.t.Helper()
	events, err := s.inspector().ListSchedulerEnqueueEvents(id, asynq.PageSize(1000))
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

func (s *site) pending() int {
	return int(s.redis.LLen(context.Background(), s.queue.Pending()).Val())
}

func TestSchedulerEnqueues(t *testing.T) {
	everywhere(t, func(s *site) {
		enqueued := make(chan *asynq.TaskInfo, 100)
		var before sync.Map
		var calls atomic.Int64
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{
			PreEnqueueFunc: func(task *asynq.Task, opts []asynq.Option) { before.Store(task.Type(), opts) },
			EnqueueHeaders: func(task *asynq.Task, opts []asynq.Option) map[string]string {
				if task.Headers() == nil {
					return nil
				}
				return map[string]string{"of": "the tick", "calls": strconv.Itoa(int(calls.Add(1))), "opts": strconv.Itoa(len(opts))}
			},
			PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				enqueued <- info
			},
		})
		task := asynq.NewTaskWithHeaders("report", []byte("all"), map[string]string{"h": "1", "of": "the entry"}, asynq.MaxRetry(7))
		id := s.registerFast(sched, task, asynq.Timeout(time.Minute))
		if _, err := uuid.Parse(id); err != nil {
			t.Errorf("the entry's ID is %q", id)
		}
		s.start(sched)
		var infos []*asynq.TaskInfo
		for range 3 {
			infos = append(infos, receive(s, enqueued, "a tick"))
		}
		late := s.registerFast(sched, asynq.NewTask("late", nil))
		for receive(s, enqueued, "the late entry").Type != "late" {
		}
		if err := sched.Unregister(id); err != nil {
			t.Error(err)
		}
		if err := sched.Unregister(id); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
			t.Errorf("the entry is unregistered again: %v", err)
		}
		sched.Shutdown()
		info := infos[0]
		if info.Type != "report" || string(info.Payload) != "all" || info.Headers["h"] != "1" || info.MaxRetry != 7 || info.Timeout != time.Minute {
			t.Errorf("enqueued %+v", info)
		}
		for i, info := range infos {
			if h := info.Headers; h["of"] != "the tick" || h["calls"] != strconv.Itoa(i+1) || h["opts"] != "1" {
				t.Errorf("tick %d has the headers %v", i, h)
			}
		}
		if infos[0].ID == infos[1].ID {
			t.Error("two ticks have one task ID")
		}
		if opts, _ := before.Load("report"); len(opts.([]asynq.Option)) != 1 {
			t.Errorf("PreEnqueueFunc was given %v", opts)
		}
		events := s.history(id)
		for i, event := range slices.Backward(events) {
			if n := len(events) - 1 - i; n < 3 && event.TaskID != infos[n].ID {
				t.Errorf("event %d is of task %s, want %s", n, event.TaskID, infos[n].ID)
			}
		}
		if all := len(events) + len(s.history(late)); all != s.pending() {
			t.Errorf("%d events, %d tasks", all, s.pending())
		}
	})
}

func TestSchedulerRegisterRefuses(t *testing.T) {
	everywhere(t, func(s *site) {
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{})
		task := asynq.NewTask("x", nil)
		for _, tt := range []struct {
			name string
			cfg  asynq.PeriodicTaskConfig
			says string
		}{
			{"no spec", asynq.PeriodicTaskConfig{Task: task}, "spec must not be empty"},
			{"bad spec", asynq.PeriodicTaskConfig{Cronspec: "61 * * * *", Task: task}, `"61 * * * *"`},
			{"spec that never fires", asynq.PeriodicTaskConfig{Cronspec: "0 0 30 2 *", Task: task}, "no tick"},
			{"bad zone", asynq.PeriodicTaskConfig{Cronspec: "CRON_TZ=Mars/City @daily", Task: task}, "Mars/City"},
			{"no task", asynq.PeriodicTaskConfig{Cronspec: "@daily"}, "task must not be nil"},
			{"no type", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask("", nil)}, "type must not be empty"},
			{"bad option of the task", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask("x", nil, asynq.Queue(""))}, "queue name"},
			{"bad option", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task, Opts: []asynq.Option{asynq.Unique(0)}}, "must be positive"},
			{"nil option", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task, Opts: []asynq.Option{nil}}, "not made by this package"},
			{"not UTF-8", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask("\xff", nil)}, "UTF-8"},
			{"bad policy", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task, MissedTicks: 9}, "MissedTicks(9)"},
		} {
			if id, err := sched.RegisterConfig(tt.cfg); err == nil || id != "" || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: ID %q, error %v, want one that says %q", tt.name, id, err, tt.says)
			}
		}
		if ids := sched.EntryIDs(); len(ids) != 0 {
			t.Errorf("entries %v", ids)
		}
	})
}

func TestSchedulerOptsRefused(t *testing.T) {
	t.Parallel()
	for _, opts := range []*asynq.SchedulerOpts{{Group: " "}, {Group: "a}b"}, {MissedTicks: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", opts)
				}
			}()
			asynq.NewScheduler(asynq.RedisClientOpt{}, opts)
		}()
	}
}

// Each entry is read on the clocks of the zone that says most about it.
func TestSchedulerLocations(t *testing.T) {
	everywhere(t, func(s *site) {
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		if err != nil {
			t.Fatal(err)
		}
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{Location: tokyo})
		now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		sched.MoveClock(func() time.Time { return now })
		berlin, _ := time.LoadLocation("Europe/Berlin")
		task := asynq.NewTask("x", nil)
		want := make(map[string]time.Time)
		for _, tt := range []struct {
			cfg  asynq.PeriodicTaskConfig
			hour int // of the 22nd, UTC
		}{
			{asynq.PeriodicTaskConfig{Cronspec: "0 9 * * *", Task: task}, 0},
			{asynq.PeriodicTaskConfig{Cronspec: "0 9 * * *", Task: task, Location: berlin}, 8},
			{asynq.PeriodicTaskConfig{Cronspec: "CRON_TZ=UTC 0 9 * * *", Task: task, Location: berlin}, 9},
		} {
			id, err := sched.RegisterConfig(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			want[id] = time.Date(2026, 11, 22, tt.hour, 0, 0, 0, time.UTC)
		}
		s.start(sched)
		s.eventually(func() bool { return len(s.entries()) == len(want) }, "the entries to be published")
		for _, e := range s.entries() {
			if !e.Next.Equal(want[e.ID]) || !e.Prev.IsZero() {
				t.Errorf("%s: next %v, want %v; prev %v", e.Spec, e.Next, want[e.ID], e.Prev)
			}
		}
	})
}

// A tick that a process comes to late, because it was held up, is enqueued; what came due behind it meanwhile is not.
func TestSchedulerHeldUp(t *testing.T) {
	everywhere(t, func(s *site) {
		const every = 10 * time.Minute
		var ahead atomic.Int64
		base := time.Now().Truncate(every).Add(every / 2)
		offset := time.Until(base)
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{MissedTicks: asynq.EnqueueAllMissed}) // counts only in a group
		sched.MoveClock(func() time.Time { return time.Now().Add(offset + time.Duration(ahead.Load())) })
		id, err := sched.RegisterFast(every, asynq.EnqueueAllMissed, asynq.NewTask("x", nil))
		if err != nil {
			t.Fatal(err)
		}
		s.start(sched)
		s.eventually(func() bool { return len(s.entries()) == 1 }, "the entry")
		ahead.Store(int64(time.Hour))
		if _, err := sched.Register("@daily", asynq.NewTask("y", nil)); err != nil { // wakes it
			t.Fatal(err)
		}
		s.eventually(func() bool { return s.log.count("were missed") == 1 }, "ticks to be skipped")
		ids := s.redis.LRange(context.Background(), s.queue.Pending(), 0, -1).Val()
		if want := asynq.TickTaskID(id, base.Truncate(every).Add(every)); !slices.Equal(ids, []string{want}) {
			t.Errorf("enqueued %v, want only the first tick", ids)
		}
	})
}

// Faults are told to all who want to hear of them, and what they do about it ends nothing.
func TestSchedulerFaults(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("taken")
		post, handled := make(chan error, 1000), make(chan error, 1000)
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{
			PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { panic("pre") },
			EnqueueHeaders: func(*asynq.Task, []asynq.Option) map[string]string { panic("headers") },
			PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
				if (info == nil) != (err != nil) {
					t.Errorf("told %v and %v", info, err)
				}
				post <- err
				runtime.Goexit()
			},
			EnqueueErrorHandler: func(task *asynq.Task, opts []asynq.Option, err error) {
				if task.Type() != "x" || len(opts) != 1 {
					t.Errorf("told of %s with %v", task.Type(), opts)
				}
				handled <- err
				panic("handler")
			},
		})
		s.registerFast(sched, asynq.NewTask("x", nil), asynq.TaskID("taken"))
		s.start(sched)
		for range 2 {
			if err := receive(s, post, "PostEnqueueFunc"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("told %v", err)
			}
			if err := receive(s, handled, "EnqueueErrorHandler"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("told %v", err)
			}
		}
		for _, callback := range []string{"PreEnqueueFunc", "EnqueueHeaders", "PostEnqueueFunc", "EnqueueErrorHandler"} {
			s.eventually(func() bool { return s.log.count("a callback panicked", callback) > 0 }, "a log line on %s", callback)
		}
		if s.log.count("was not enqueued", "ID conflicts") == 0 {
			t.Error("the fault is not logged")
		}
	})
}

// While Redis is gone ticks fail, and are told of; afterwards it goes on.
func TestSchedulerOutage(t *testing.T) {
	everywhere(t, func(s *site) {
		proxy, opt := s.proxy()
		opt.MaxRetries = -1
		results := make(chan error, 1000)
		sched := s.scheduler(opt, asynq.SchedulerOpts{PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) { results <- err }})
		s.registerFast(sched, asynq.NewTask("x", nil))
		s.start(sched)
		if err := receive(s, results, "a tick"); err != nil {
			t.Error(err)
		}
		proxy.Down()
		for receive(s, results, "a fault") == nil {
		}
		proxy.Resume()
		for receive(s, results, "a tick") != nil {
		}
	})
}

func TestSchedulerLifecycle(t *testing.T) {
	everywhere(t, func(s *site) {
		never := asynq.NewScheduler(s.opt(), nil)
		never.Shutdown()
		never.Shutdown()
		if err := never.Start(); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("start after shutdown: %v", err)
		}
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{})
		if err := sched.Ping(); err != nil {
			t.Error(err)
		}
		s.start(sched)
		if err := sched.Start(); err == nil || errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("start after start: %v", err)
		}
		sched.Shutdown()
		for what, err := range map[string]error{"Start": sched.Start(), "Run": sched.Run(), "Ping": sched.Ping()} {
			if !errors.Is(err, asynq.ErrSchedulerClosed) {
				t.Errorf("%s after shutdown: %v", what, err)
			}
		}
		if _, err := sched.Register("@daily", asynq.NewTask("x", nil)); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("register after shutdown: %v", err)
		}
		shared := asynq.NewSchedulerFromRedisClient(s.redis, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
		s.start(shared)
		shared.Shutdown()
		if err := s.redis.Ping(context.Background()).Err(); err != nil {
			t.Errorf("the shared connection: %v", err)
		}
	})
}

// All methods at once, in every order.
func TestSchedulerLifecycleStress(t *testing.T) {
	everywhere(t, func(s *site) {
		for round := range 20 {
			opts := asynq.SchedulerOpts{HeartbeatInterval: time.Millisecond}
			if round%2 == 0 {
				opts.Group = "g"
			}
			sched := s.scheduler(s.opt(), opts)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					switch i % 4 {
					case 0:
						_ = sched.Start() // fails where another was first
					case 1:
						id, err := sched.RegisterFast(5*time.Millisecond, asynq.MissedTicksDefault, asynq.NewTask(fmt.Sprint(i), nil))
						if err == nil && round%3 == 0 {
							_ = sched.Unregister(id)
						}
					case 2:
						_ = sched.Ping() // may come after the shutdown
					case 3:
						if round%5 != 0 {
							sched.Shutdown()
						}
					}
				})
			}
			wg.Wait()
			sched.Shutdown()
		}
		if left := s.keys("asynq:schedulers*"); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestSchedulerShutdownWithoutRedis(t *testing.T) {
	everywhere(t, func(s *site) {
		proxy, opt := s.proxy()
		sched := s.scheduler(opt, asynq.SchedulerOpts{Group: "g"})
		s.registerFast(sched, asynq.NewTask("x", nil))
		s.start(sched)
		s.eventually(func() bool { return s.pending() > 0 }, "a tick")
		proxy.Blackhole()
		begun := time.Now()
		sched.Shutdown()
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
