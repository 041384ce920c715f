package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // for machines without time zones

	"github.com/google/uuid"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// newScheduler returns a scheduler that is shut down when the test ends.
func newScheduler(env *testenv.Env, opt asynq.RedisConnOpt, opts asynq.SchedulerOpts) *asynq.Scheduler {
	opts.Logger = asynq.NewSlogLogger(slog.New(env.Log))
	sched := asynq.NewScheduler(opt, &opts)
	env.T.Cleanup(sched.Shutdown)
	return sched
}

func startScheduler(env *testenv.Env, sched *asynq.Scheduler) {
	env.T.Helper()
	if err := sched.Start(); err != nil {
		env.T.Fatal(err)
	}
}

// registerFast registers a task with ten ticks a second.
func registerFast(env *testenv.Env, sched *asynq.Scheduler, task *asynq.Task, opts ...asynq.Option) string {
	env.T.Helper()
	id, err := sched.RegisterFast(fast, asynq.MissedTicksDefault, task, opts...)
	if err != nil {
		env.T.Fatal(err)
	}
	return id
}

// fast is the interval of the entries of registerFast.
const fast = 100 * time.Millisecond

// schedulerEntries returns the published entries.
func schedulerEntries(env *testenv.Env) []*asynq.SchedulerEntry {
	env.T.Helper()
	entries, err := env.Inspector().SchedulerEntries()
	if err != nil {
		env.T.Fatal(err)
	}
	return entries
}

// enqueueEvents returns the enqueue events of an entry, newest first.
func enqueueEvents(env *testenv.Env, id string) []*asynq.SchedulerEnqueueEvent {
	env.T.Helper()
	events, err := env.Inspector().ListSchedulerEnqueueEvents(id, asynq.PageSize(1000))
	if err != nil {
		env.T.Fatal(err)
	}
	return events
}

// pendingTasks returns the number of pending tasks in the default queue.
func pendingTasks(env *testenv.Env) int {
	return int(env.RDB.LLen(context.Background(), env.Queue.Pending()).Val())
}

func TestSchedulerEnqueues(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		enqueued := make(chan *asynq.TaskInfo, 100)
		var before sync.Map
		var calls atomic.Int64
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{
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
		id := registerFast(env, sched, task, asynq.Timeout(time.Minute))
		if _, err := uuid.Parse(id); err != nil {
			t.Errorf("entry ID %q", id)
		}
		startScheduler(env, sched)
		var infos []*asynq.TaskInfo
		for range 3 {
			infos = append(infos, testenv.Await(env, enqueued, "a tick"))
		}
		late := registerFast(env, sched, asynq.NewTask("late", nil))
		for testenv.Await(env, enqueued, "the late entry").Type != "late" {
		}
		if err := sched.Unregister(id); err != nil {
			t.Error(err)
		}
		if err := sched.Unregister(id); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
			t.Errorf("second Unregister: %v", err)
		}
		sched.Shutdown()
		info := infos[0]
		if info.Type != "report" || string(info.Payload) != "all" || info.Headers["h"] != "1" || info.MaxRetry != 7 || info.Timeout != time.Minute {
			t.Errorf("enqueued %+v", info)
		}
		for i, info := range infos {
			if h := info.Headers; h["of"] != "the tick" || h["calls"] != strconv.Itoa(i+1) || h["opts"] != "1" {
				t.Errorf("tick %d has headers %v", i, h)
			}
		}
		if infos[0].ID == infos[1].ID {
			t.Error("two ticks have the same task ID")
		}
		if opts, _ := before.Load("report"); len(opts.([]asynq.Option)) != 1 {
			t.Errorf("PreEnqueueFunc got %v", opts)
		}
		events := enqueueEvents(env, id)
		for i, event := range slices.Backward(events) {
			if n := len(events) - 1 - i; n < 3 && event.TaskID != infos[n].ID {
				t.Errorf("event %d is for task %s, want %s", n, event.TaskID, infos[n].ID)
			}
		}
		if all := len(events) + len(enqueueEvents(env, late)); all != pendingTasks(env) {
			t.Errorf("%d events, %d tasks", all, pendingTasks(env))
		}
	})
}

// unknownOption is an Option of a type that does not exist.
type unknownOption struct{ asynq.Option }

func (unknownOption) Type() asynq.OptionType { return 99 }

func TestSchedulerRegisterRejects(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{})
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
			{"unknown option", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task, Opts: []asynq.Option{unknownOption{asynq.MaxRetry(1)}}}, "unknown type 99"},
			{"not UTF-8", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: asynq.NewTask("\xff", nil)}, "UTF-8"},
			{"bad policy", asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task, MissedTicks: 9}, "MissedTicks(9)"},
		} {
			if id, err := sched.RegisterConfig(tt.cfg); err == nil || id != "" || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: ID %q, error %v, want one that contains %q", tt.name, id, err, tt.says)
			}
		}
		if ids := sched.EntryIDs(); len(ids) != 0 {
			t.Errorf("entries %v", ids)
		}
	})
}

func TestInvalidSchedulerOpts(t *testing.T) {
	t.Parallel()
	for _, opts := range []*asynq.SchedulerOpts{{Group: " "}, {Group: "a}b"}, {MissedTicks: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("accepted %+v", opts)
				}
			}()
			asynq.NewScheduler(asynq.RedisClientOpt{}, opts)
		}()
	}
}

// The zone of the spec takes precedence over that of the config, and this one over that of the
// scheduler.
func TestSchedulerLocations(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		tokyo, err := time.LoadLocation("Asia/Tokyo")
		if err != nil {
			t.Fatal(err)
		}
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Location: tokyo})
		now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		sched.MoveClock(func() time.Time { return now })
		berlin, _ := time.LoadLocation("Europe/Berlin")
		task := asynq.NewTask("x", nil)
		want := make(map[string]time.Time)
		for _, tt := range []struct {
			cfg  asynq.PeriodicTaskConfig
			hour int // on the 22nd, in UTC
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
		startScheduler(env, sched)
		env.Eventually(func() bool { return len(schedulerEntries(env)) == len(want) }, "the entries to be published")
		for _, e := range schedulerEntries(env) {
			if !e.Next.Equal(want[e.ID]) || !e.Prev.IsZero() {
				t.Errorf("%s: next %v, want %v; prev %v", e.Spec, e.Next, want[e.ID], e.Prev)
			}
		}
	})
}

// A process that was suspended enqueues the tick that it waited for, but not those that became due
// meanwhile.
func TestSchedulerSuspended(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const every = 10 * time.Minute
		var ahead atomic.Int64
		base := time.Now().Truncate(every).Add(every / 2)
		offset := time.Until(base)
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{MissedTicks: asynq.EnqueueAllMissed}) // ignored without a group
		sched.MoveClock(func() time.Time { return time.Now().Add(offset + time.Duration(ahead.Load())) })
		id, err := sched.RegisterFast(every, asynq.EnqueueAllMissed, asynq.NewTask("x", nil))
		if err != nil {
			t.Fatal(err)
		}
		startScheduler(env, sched)
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the entry")
		ahead.Store(int64(time.Hour))
		if _, err := sched.Register("@daily", asynq.NewTask("y", nil)); err != nil { // wakes the scheduler
			t.Fatal(err)
		}
		env.Eventually(func() bool { return env.Log.Count("missed ticks") == 1 }, "ticks to be skipped")
		ids := env.RDB.LRange(context.Background(), env.Queue.Pending(), 0, -1).Val()
		if want := asynq.TickTaskID(id, base.Truncate(every).Add(every)); !slices.Equal(ids, []string{want}) {
			t.Errorf("enqueued %v, want only the first tick", ids)
		}
	})
}

// All callbacks receive errors. Panics in callbacks do not stop the scheduler.
func TestSchedulerErrors(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("taken")
		post, handled := make(chan error, 1000), make(chan error, 1000)
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{
			PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { panic("pre") },
			EnqueueHeaders: func(*asynq.Task, []asynq.Option) map[string]string { panic("headers") },
			PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
				if (info == nil) != (err != nil) {
					t.Errorf("PostEnqueueFunc got %v and %v", info, err)
				}
				post <- err
				panic("post")
			},
			EnqueueErrorHandler: func(task *asynq.Task, opts []asynq.Option, err error) {
				if task.Type() != "x" || len(opts) != 1 {
					t.Errorf("EnqueueErrorHandler got %s with %v", task.Type(), opts)
				}
				handled <- err
				panic("handler")
			},
		})
		registerFast(env, sched, asynq.NewTask("x", nil), asynq.TaskID("taken"))
		startScheduler(env, sched)
		for range 2 {
			if err := testenv.Await(env, post, "PostEnqueueFunc"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("PostEnqueueFunc got %v", err)
			}
			if err := testenv.Await(env, handled, "EnqueueErrorHandler"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("EnqueueErrorHandler got %v", err)
			}
		}
		for _, callback := range []string{"PreEnqueueFunc", "EnqueueHeaders", "PostEnqueueFunc", "EnqueueErrorHandler"} {
			env.Eventually(func() bool { return env.Log.Count("callback panicked", callback) > 0 }, "a log line about %s", callback)
		}
		if env.Log.Count("could not enqueue", "ID conflicts") == 0 {
			t.Error("the error was not logged")
		}
	})
}

// Ticks fail while Redis is down, and succeed afterwards.
func TestSchedulerOutage(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		opt.Params = "max_retries=-1"
		results := make(chan error, 1000)
		sched := newScheduler(env, opt, asynq.SchedulerOpts{PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) { results <- err }})
		registerFast(env, sched, asynq.NewTask("x", nil))
		startScheduler(env, sched)
		if err := testenv.Await(env, results, "a tick"); err != nil {
			t.Error(err)
		}
		proxy.Down()
		for testenv.Await(env, results, "an error") == nil {
		}
		proxy.Resume()
		for testenv.Await(env, results, "a tick") != nil {
		}
	})
}

func TestSchedulerLifecycle(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		never := asynq.NewScheduler(env.Opt(), &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
		never.Shutdown()
		never.Shutdown()
		startScheduler(env, never) // Shutdown before Start has no effect
		never.Shutdown()
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{})
		if err := sched.Ping(); err != nil {
			t.Error(err)
		}
		startScheduler(env, sched)
		if err := sched.Start(); err == nil || errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("second Start: %v", err)
		}
		sched.Shutdown()
		for what, err := range map[string]error{"Start": sched.Start(), "Run": sched.Run(), "Ping": sched.Ping()} {
			if !errors.Is(err, asynq.ErrSchedulerClosed) {
				t.Errorf("%s after Shutdown: %v", what, err)
			}
		}
		if _, err := sched.Register("@daily", asynq.NewTask("x", nil)); !errors.Is(err, asynq.ErrSchedulerClosed) {
			t.Errorf("Register after Shutdown: %v", err)
		}
		shared := asynq.NewSchedulerFromRedisClient(env.RDB, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
		startScheduler(env, shared)
		shared.Shutdown()
		if err := env.RDB.Ping(context.Background()).Err(); err != nil {
			t.Errorf("Ping on the shared connection: %v", err)
		}
	})
}

// All methods run concurrently, in random order.
func TestSchedulerLifecycleStress(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for round := range 20 {
			opts := asynq.SchedulerOpts{HeartbeatInterval: time.Millisecond}
			if round%2 == 0 {
				opts.Group = "g"
			}
			sched := newScheduler(env, env.Opt(), opts)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					switch i % 4 {
					case 0:
						_ = sched.Start() // fails unless it is the first
					case 1:
						id, err := sched.RegisterFast(5*time.Millisecond, asynq.MissedTicksDefault, asynq.NewTask(fmt.Sprint(i), nil))
						if err == nil && round%3 == 0 {
							_ = sched.Unregister(id)
						}
					case 2:
						_ = sched.Ping() // fails after Shutdown
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
		if left := env.Keys("asynq:schedulers*"); len(left) != 0 {
			t.Errorf("keys left: %v", left)
		}
	})
}

func TestSchedulerShutdownWithoutRedis(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		sched := newScheduler(env, opt, asynq.SchedulerOpts{Group: "g"})
		registerFast(env, sched, asynq.NewTask("x", nil))
		startScheduler(env, sched)
		env.Eventually(func() bool { return pendingTasks(env) > 0 }, "a tick")
		proxy.Blackhole()
		start := time.Now()
		sched.Shutdown()
		if took := time.Since(start); took > 5*time.Second+testenv.Slack {
			t.Errorf("Shutdown took %v", took)
		}
	})
}
