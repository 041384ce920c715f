package asynq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// testLease is the leadership lease in tests that wait until it expires.
const testLease = time.Second

// newMember returns a scheduler of group g and the ID of its only entry, which is fast.
func newMember(env *testenv.Env, opt asynq.RedisConnOpt, opts asynq.SchedulerOpts) (*asynq.Scheduler, string) {
	env.T.Helper()
	opts.Group = "g"
	sched := newScheduler(env, opt, opts)
	sched.ShortenLease(testLease)
	return sched, registerFast(env, sched, asynq.NewTask("fast", nil))
}

// awaitLeader waits until a scheduler is the leader.
func awaitLeader(env *testenv.Env, sched *asynq.Scheduler) {
	env.T.Helper()
	env.Eventually(sched.Leads, "a scheduler to become the leader")
}

// wantOneLeader fails if both schedulers lead. Which one does may change: a busy machine may stop
// the leader for longer than its lease.
func wantOneLeader(env *testenv.Env, a, b *asynq.Scheduler) {
	env.T.Helper()
	if a.Leads() && b.Leads() && a.Leads() {
		env.T.Error("two schedulers lead")
	}
}

// awaitTicks waits until n more tasks are pending.
func awaitTicks(env *testenv.Env, n int) {
	env.T.Helper()
	want := pendingTasks(env) + n
	env.Eventually(func() bool { return pendingTasks(env) >= want }, "%d ticks", n)
}

// wantEachTickOnce requires that at least n tasks are pending, exactly one for each consecutive
// tick of a fast entry, in order.
func wantEachTickOnce(env *testenv.Env, entryID string, n int) {
	env.T.Helper()
	ids := env.RDB.LRange(context.Background(), env.Queue.Pending(), 0, -1).Val()
	slices.Reverse(ids)
	if len(ids) < n {
		env.T.Errorf("%d ticks were enqueued, want at least %d", len(ids), n)
	}
	tick := time.Now().Truncate(fast).Add(-2 * time.Minute)
	for i := 0; i < 2400 && len(ids) > 0 && asynq.TickTaskID(entryID, tick) != ids[0]; i++ {
		tick = tick.Add(fast)
	}
	for i, id := range ids {
		if want := asynq.TickTaskID(entryID, tick.Add(time.Duration(i)*fast)); id != want {
			env.T.Fatalf("task %d of %d is not the one of its tick: duplicate, missing or out of order", i, len(ids))
		}
	}
	recorded := make(map[string]time.Time)
	for _, e := range enqueueEvents(env, entryID) {
		if at, twice := recorded[e.TaskID]; twice || !slices.Contains(ids, e.TaskID) {
			env.T.Errorf("the history has task %s at %v, and before at %v; its tick was number %d", e.TaskID, e.EnqueuedAt, at, slices.Index(ids, e.TaskID))
		}
		recorded[e.TaskID] = e.EnqueuedAt
	}
}

func TestGroupLeaderIsCutOff(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		opt.Params = "max_retries=-1"
		a, entry := newMember(env, opt, asynq.SchedulerOpts{})
		startScheduler(env, a)
		awaitLeader(env, a)
		b, same := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		if entry != same {
			t.Fatalf("the same entry has the IDs %s and %s", entry, same)
		}
		startScheduler(env, b)
		awaitTicks(env, 10)
		wantOneLeader(env, a, b)
		proxy.Down()
		awaitLeader(env, b)
		if a.Leads() {
			t.Error("the old leader still considers itself the leader")
		}
		awaitTicks(env, 15)
		proxy.Resume()
		awaitTicks(env, 10)
		wantOneLeader(env, a, b)
		b.Shutdown()
		awaitLeader(env, a)
		awaitTicks(env, 5)
		a.Shutdown()
		wantEachTickOnce(env, entry, 40)
	})
}

// The commands that a frozen leader sent before and sends after it resumes have no effect.
func TestGroupLeaderIsFrozen(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		a, entry := newMember(env, opt, asynq.SchedulerOpts{})
		startScheduler(env, a)
		awaitLeader(env, a)
		b, _ := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		startScheduler(env, b)
		awaitTicks(env, 5)
		for range 2 {
			proxy.Blackhole() // soon during a tick
			awaitLeader(env, b)
			awaitTicks(env, 15)
			proxy.Resume()
			awaitTicks(env, 5)
			b.Shutdown()
			awaitLeader(env, a)
			b, _ = newMember(env, env.Opt(), asynq.SchedulerOpts{})
			startScheduler(env, b)
		}
		a.Shutdown()
		b.Shutdown()
		wantEachTickOnce(env, entry, 40)
	})
}

// A leader whose ticks are delayed, but not the renewal of its lease, continues where it stopped.
func TestGroupLeaderIsSlow(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		slow := true
		a, entry := newMember(env, env.Opt(), asynq.SchedulerOpts{PreEnqueueFunc: func(*asynq.Task, []asynq.Option) {
			if slow {
				slow = false
				time.Sleep(2 * testLease) // longer than the deadline at the start of the tick
			}
		}})
		startScheduler(env, a)
		awaitTicks(env, 30)
		a.Shutdown()
		wantEachTickOnce(env, entry, 30)
	})
}

// A leader whose lease has expired by the clock of Redis detects that with its next tick. It
// applies for the leadership at once, instead of repeating the tick in a loop.
func TestGroupClockJumps(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	env := testenv.New(t, r, r.Client())
	proxy, opt := env.Proxy()
	a := newScheduler(env, opt, asynq.SchedulerOpts{Group: "g"})
	entry := registerFast(env, a, asynq.NewTask("fast", nil))
	startScheduler(env, a)
	awaitTicks(env, 2)
	before := proxy.Commands()
	r.SetTime(time.Now().Add(time.Hour))
	env.Eventually(func() bool { return env.Log.Count("became the leader") == 2 }, "a new term")
	if n := proxy.Commands() - before; n > 50 {
		t.Errorf("sent %d commands", n)
	}
	awaitTicks(env, 2)
	a.Shutdown()
	if pendingTasks(env) != len(enqueueEvents(env, entry)) {
		t.Errorf("%d tasks, but %d events", pendingTasks(env), len(enqueueEvents(env, entry)))
	}
}

func TestGroupReplyIsLost(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for _, retries := range []string{"max_retries=-1", ""} { // without and with retries of go-redis
			proxy, opt := env.Proxy()
			opt.Params = retries
			var calls testenv.Tally
			a, entry := newMember(env, opt, asynq.SchedulerOpts{PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
				if err == nil {
					calls.Add(info.ID)
				}
			}})
			a.ShortenLease(time.Minute) // it must not lose its lease on a busy machine
			startScheduler(env, a)
			awaitTicks(env, 3)
			for range 3 {
				lost := proxy.SwallowReplies(1, "evalsha", "tick:")
				testenv.Await(env, lost.Done(), "a reply to be lost")
				dropped := proxy.LoseCommands(1, "evalsha", "tick:")
				testenv.Await(env, dropped.Done(), "a command to be lost")
				awaitTicks(env, 1)
			}
			// Without further ticks. A shutdown gives up a tick without a reply after two seconds.
			env.NoError(env.Inspector().PauseSchedulerEntry(context.Background(), entry))
			env.Eventually(func() bool {
				n := pendingTasks(env)
				return calls.Distinct() == n && len(enqueueEvents(env, entry)) == n && pendingTasks(env) == n
			}, "each task to have a call of PostEnqueueFunc and an event")
			a.Shutdown()
			wantEachTickOnce(env, entry, 6)
			if n := len(calls.Order()); n != calls.Distinct() {
				t.Errorf("PostEnqueueFunc was called %d times for %d tasks", n, calls.Distinct())
			}
			env.RDB.FlushDB(context.Background())
		}
	})
}

// When the leader shuts down, another member takes over at once, before the lease expires.
func TestGroupLeaderShutsDown(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		join := func() *asynq.Scheduler {
			sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Group: "g", HeartbeatInterval: 50 * time.Millisecond})
			if _, err := sched.Register("@daily", asynq.NewTask("x", nil)); err != nil {
				t.Fatal(err)
			}
			startScheduler(env, sched)
			return sched
		}
		a := join()
		awaitLeader(env, a)
		b := join()
		env.Eventually(func() bool { return len(env.Keys("asynq:schedulers:*}")) == 1 }, "the entries of the leader")
		start := time.Now()
		a.Shutdown()
		awaitLeader(env, b)
		if took := time.Since(start); took > 2*time.Second+testenv.Slack {
			t.Errorf("the takeover took %v", took)
		}
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the entries of the new leader")
	})
}

// An entry that only the new leader has starts when it becomes the leader, without earlier ticks.
func TestGroupEntryOfOneMember(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		a, _ := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		b, _ := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		only := registerFast(env, b, asynq.NewTask("only", nil), asynq.Queue("low"))
		startScheduler(env, a)
		awaitLeader(env, a)
		startScheduler(env, b)
		awaitTicks(env, 10)
		if events := enqueueEvents(env, only); len(events) != 0 {
			t.Errorf("an entry that the leader does not have enqueued %d tasks", len(events))
		}
		led := time.Now()
		a.Shutdown()
		env.Eventually(func() bool { return len(enqueueEvents(env, only)) > 2 }, "the ticks of the entry")
		b.Shutdown()
		if n := len(enqueueEvents(env, only)); n > int(time.Since(led)/fast)+1 {
			t.Errorf("%d ticks in %v", n, time.Since(led))
		}
	})
}

func TestGroupEntryIDs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		register := func(group string, cfg asynq.PeriodicTaskConfig) string {
			t.Helper()
			id, err := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Group: group}).RegisterConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		task := func(h string, opts ...asynq.Option) *asynq.Task {
			return asynq.NewTaskWithHeaders("x", []byte("p"), map[string]string{"h": h, "g": "1", "f": "2"}, opts...)
		}
		base := asynq.PeriodicTaskConfig{Cronspec: "@daily", Task: task("1", asynq.Queue("low"), asynq.MaxRetry(1))}
		id := register("g", base)
		for _, same := range []asynq.PeriodicTaskConfig{
			{Cronspec: "@daily", Task: task("1"), Opts: []asynq.Option{asynq.MaxRetry(1), asynq.Queue("low")}},
			{Cronspec: "@daily", Task: task("1", asynq.Queue("high")), Opts: []asynq.Option{asynq.MaxRetry(1), asynq.Queue("low")}, Location: time.UTC},
			{Cronspec: "@daily", Task: base.Task, MissedTicks: asynq.EnqueueAllMissed},
		} {
			if got := register("g", same); got != id {
				t.Errorf("%+v has a different ID", same)
			}
		}
		seen := map[string]int{id: -2, register("other", base): -1}
		for i, differs := range []asynq.PeriodicTaskConfig{
			{Cronspec: "@hourly", Task: base.Task},
			{Cronspec: "@daily", Task: base.Task, Location: time.FixedZone("UTC", 3600)},
			{Cronspec: "@daily", Task: task("2", base.Task.Options()...)},
			{Cronspec: "@daily", Task: base.Task, Opts: []asynq.Option{asynq.MaxRetry(2)}},
			{Cronspec: "@daily", Task: asynq.NewTask("x", []byte{}, base.Task.Options()...)},
			{Cronspec: "@daily", Task: asynq.NewTask("x", nil, base.Task.Options()...)},
		} {
			got := register("g", differs)
			if other, ok := seen[got]; ok {
				t.Errorf("config %d has the ID of config %d", i, other)
			}
			seen[got] = i
		}
		twins := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Group: "g"})
		var ids []string
		for range 3 {
			got, err := twins.RegisterConfig(base)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, got)
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != 3 || !slices.Contains(ids, id) {
			t.Errorf("identical configs have the IDs %v", ids)
		}
	})
}

// A tick that a full Redis rejects is enqueued as soon as there is memory.
func TestGroupFullRedis(t *testing.T) {
	t.Parallel()
	env, _ := testenv.OnServer(t, "--maxmemory-policy", "noeviction")
	ctx := context.Background()
	faults := make(chan error, 10_000)
	a, entry := newMember(env, env.Opt(), asynq.SchedulerOpts{PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
		if err != nil {
			faults <- err
		}
	}})
	startScheduler(env, a)
	awaitTicks(env, 3)
	if err := env.RDB.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Await(env, faults, "an error"); !errors.Is(err, asynq.ErrRedisFull) {
		t.Errorf("PostEnqueueFunc got %v", err)
	}
	for range 3 {
		if err := testenv.Await(env, faults, "more errors"); !errors.Is(err, asynq.ErrRedisFull) {
			t.Errorf("PostEnqueueFunc got %v", err)
		}
	}
	if !a.Leads() {
		t.Error("a full Redis ended the term of the leader")
	}
	if err := env.RDB.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	awaitTicks(env, 20)
	a.Shutdown()
	wantEachTickOnce(env, entry, 20)
}

// A rejected tick is not repeated and does not delay later ticks.
func TestGroupRejectedTick(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("taken")
		results := make(chan error, 1000)
		a := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Group: "g", PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) { results <- err }})
		registerFast(env, a, asynq.NewTask("x", nil), asynq.TaskID("taken"))
		startScheduler(env, a)
		for range 3 {
			if err := testenv.Await(env, results, "a tick"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("PostEnqueueFunc got %v", err)
			}
		}
		if env.RDB.RPop(context.Background(), env.Queue.Pending()).Err() != nil || env.RDB.Del(context.Background(), env.Queue.Task("taken")).Err() != nil {
			t.Fatal("could not remove the task")
		}
		for testenv.Await(env, results, "a tick that succeeds") != nil {
		}
	})
}

// Two groups on one Redis are independent, and so are groups of the same name in two namespaces.
func TestGroupsAreIndependent(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for _, opt := range []asynq.RedisConnOpt{env.Opt(), asynq.WithNamespace(env.Opt(), "other")} {
			for _, group := range []string{"g", "h"} {
				sched := newScheduler(env, opt, asynq.SchedulerOpts{Group: group})
				startScheduler(env, sched)
				awaitLeader(env, sched)
			}
		}
	})
}

// Ticks that became due without a leader are enqueued late after a short gap. After a long gap, the
// policy decides.
func TestGroupMissedTicks(t *testing.T) {
	const every, away = 10 * time.Minute, time.Hour
	for _, tt := range []struct {
		name   string
		policy asynq.MissedTicks
		gap    time.Duration
		want   int // how many of the six ticks
	}{
		{"skip", asynq.SkipMissed, away, 0},
		{"default", asynq.MissedTicksDefault, away, 0},
		{"last", asynq.EnqueueLastMissed, away, 1},
		{"all", asynq.EnqueueAllMissed, away, 6},
		{"skip after a short gap", asynq.SkipMissed, 0, 6},
		{"last after a short gap", asynq.EnqueueLastMissed, 0, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				ctx := context.Background()
				base := time.Now()
				if until := base.Truncate(every).Add(every); time.Until(until) < 2*testenv.Timeout {
					base = base.Add(-2 * testenv.Timeout) // so that no seventh tick occurs during the test
				}
				join := func(ago time.Duration) (*asynq.Scheduler, string) {
					sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{Group: "g", MissedTicks: tt.policy})
					offset := time.Until(base) - ago
					sched.MoveClock(func() time.Time { return time.Now().Add(offset) })
					id, err := sched.RegisterFast(every, asynq.MissedTicksDefault, asynq.NewTask("x", nil))
					if err != nil {
						t.Fatal(err)
					}
					startScheduler(env, sched)
					awaitLeader(env, sched)
					return sched, id
				}
				a, entry := join(away)
				record := env.Queue.Tick(entry)
				env.Eventually(func() bool { return env.RDB.Exists(ctx, record).Val() == 1 }, "the tick record of the entry")
				a.Shutdown()
				env.RDB.HIncrBy(ctx, env.Keys("asynq:scheduler_groups:*")[0], "until", -tt.gap.Milliseconds())

				b, _ := join(0)
				var ids []string
				last := base.Truncate(every)
				for i := range 6 {
					if i >= 6-tt.want {
						ids = append(ids, asynq.TickTaskID(entry, last.Add(time.Duration(i-5)*every)))
					}
				}
				if tt.want == 0 {
					env.Eventually(func() bool {
						return env.Log.Count("missed ticks") == 1 && env.RDB.Get(ctx, record).Val() == strconv.FormatInt(last.UnixMilli(), 10)+":6"
					}, "the ticks to be skipped")
				}
				env.Eventually(func() bool { return pendingTasks(env) >= tt.want }, "%d ticks", tt.want)
				b.Shutdown()
				got := env.RDB.LRange(ctx, env.Queue.Pending(), 0, -1).Val()
				if slices.Reverse(got); !slices.Equal(got, ids) {
					t.Errorf("enqueued %d tasks, want the last %d ticks", len(got), tt.want)
				}
				// The next leader finds no missed ticks.
				c, _ := join(0)
				env.Eventually(func() bool { return env.Log.Count("became the leader") == 3 }, "a third leader")
				c.Shutdown()
				if pendingTasks(env) != tt.want {
					t.Errorf("%d tasks after another change of leader, want %d", pendingTasks(env), tt.want)
				}
			})
		})
	}
}

// crashableSchedulerEnv is the environment variable with the URI of the Redis of the child process.
const crashableSchedulerEnv = "ASYNQ_TEST_CRASHABLE_SCHEDULER"

// TestMain runs the tests. Tests that kill a scheduler start this binary again as a child process.
func TestMain(m *testing.M) {
	if os.Getenv(crashableSchedulerEnv) != "" {
		runCrashableScheduler()
		return
	}
	testenv.Main(m)
}

// processLease is the leadership lease in child processes, long enough that no leader loses it on a
// busy machine.
const processLease = 4 * time.Second

// runCrashableScheduler is the main function of a child process, a member of group g that the test
// kills. It prints a line when it becomes the leader.
func runCrashableScheduler() {
	opt, err := asynq.ParseRedisURI(os.Getenv(crashableSchedulerEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	printed := false
	sched := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Group: "g", LogLevel: asynq.FatalLevel, PostEnqueueFunc: func(*asynq.TaskInfo, error) {
		if !printed {
			printed = true
			fmt.Println("leads")
		}
	}})
	sched.ShortenLease(processLease)
	if _, err = sched.RegisterFast(fast, asynq.MissedTicksDefault, asynq.NewTask("fast", nil)); err == nil {
		err = sched.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent exits
	os.Exit(0)
}

// startMember starts a child process with a member of group g and waits until it is the leader.
func startMember(env *testenv.Env) *os.Process {
	env.T.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashableSchedulerEnv+"="+env.URI())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		env.T.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		env.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		env.T.Fatal(err)
	}
	env.T.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // returns that it was killed
		_ = stdin.Close()
	})
	leads := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			leads <- struct{}{}
		}
	}()
	testenv.Await(env, leads, "the child process to become the leader")
	return cmd.Process
}

// If the process of the leader is killed or frozen, no tick is lost or enqueued twice, not even
// after a frozen process resumes.
func TestGroupLeaderDies(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("kill is not available")
	}
	for _, signal := range []string{"KILL", "STOP"} {
		t.Run("SIG"+signal, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				leader := startMember(env)
				send := func(signal string) {
					if out, err := exec.Command("kill", "-"+signal, strconv.Itoa(leader.Pid)).CombinedOutput(); err != nil {
						t.Fatalf("kill -%s: %v: %s", signal, err, out)
					}
				}
				b, entry := newMember(env, env.Opt(), asynq.SchedulerOpts{})
				b.ShortenLease(processLease)
				startScheduler(env, b)
				awaitTicks(env, 10)
				if b.Leads() {
					t.Fatal("two schedulers lead")
				}
				send(signal)
				awaitLeader(env, b)
				awaitTicks(env, 15)
				if signal == "STOP" {
					send("CONT")
				}
				awaitTicks(env, 15)
				if err := leader.Kill(); err != nil && signal == "STOP" {
					t.Error(err)
				}
				b.Shutdown()
				wantEachTickOnce(env, entry, 40)
			})
		})
	}
}

// A renewal whose reply arrives after the term ended wakes the ticks, which may have stopped in
// between.
func TestTermRenewedLate(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		now := time.Now()
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: "localhost:0"}, &asynq.SchedulerOpts{Group: "g"})
		t.Cleanup(s.Shutdown)
		s.MoveClock(func() time.Time { return now })
		s.GrantLead(now)
		sent := now.Add(s.TermLength() - time.Millisecond)
		now = sent
		if late {
			now = now.Add(time.Second)
			if s.Leads() {
				t.Error("the term has not ended")
			}
		}
		s.GrantLead(sent)
		if !s.Leads() {
			t.Error("the term has ended")
		}
		if woken := s.TicksWoken(); woken != late {
			t.Errorf("late %v: the ticks are woken: %v", late, woken)
		}
	}
}
