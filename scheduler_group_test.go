package asynq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
)

// testLease is that of leaders in tests that wait for its end.
const testLease = time.Second

// member returns a scheduler of a group with one fast entry, whose ID it returns too.
func (s *site) member(opt asynq.RedisConnOpt, opts asynq.SchedulerOpts) (*asynq.Scheduler, string) {
	s.t.Helper()
	opts.Group = "g"
	sched := s.scheduler(opt, opts)
	sched.ShortenLease(testLease)
	return sched, s.registerFast(sched, asynq.NewTask("fast", nil))
}

// awaitLead waits until a scheduler leads.
func (s *site) awaitLead(sched *asynq.Scheduler) {
	s.t.Helper()
	s.eventually(sched.Leads, "a scheduler to lead")
}

// awaitTicks waits until n more tasks are pending.
func (s *site) awaitTicks(n int) {
	s.t.Helper()
	want := s.pending() + n
	s.eventually(func() bool { return s.pending() >= want }, "%d ticks", n)
}

// wantEachTickOnce fails the test unless the pending tasks are those of the entry's fast ticks: of each from the first to the last one
// exactly one, in their order, at least n.
func (s *site) wantEachTickOnce(entryID string, n int) {
	s.t.Helper()
	ids := s.redis.LRange(context.Background(), s.queue.Pending(), 0, -1).Val()
	slices.Reverse(ids)
	if len(ids) < n {
		s.t.Errorf("%d ticks were enqueued, want at least %d", len(ids), n)
	}
	tick := time.Now().Truncate(fast).Add(-2 * time.Minute)
	for i := 0; i < 2400 && len(ids) > 0 && asynq.TickTaskID(entryID, tick) != ids[0]; i++ {
		tick = tick.Add(fast)
	}
	for i, id := range ids {
		if want := asynq.TickTaskID(entryID, tick.Add(time.Duration(i)*fast)); id != want {
			s.t.Fatalf("task %d of %d is not that of its tick: it is enqueued twice, left out, or out of order", i, len(ids))
		}
	}
	if events := s.history(entryID); len(events) > len(ids) {
		s.t.Errorf("the history has %d events of %d ticks", len(events), len(ids))
	}
}

func TestGroupLeaderIsCutOff(t *testing.T) {
	everywhere(t, func(s *site) {
		proxy, opt := s.proxy()
		opt.MaxRetries = -1
		a, entry := s.member(opt, asynq.SchedulerOpts{})
		s.start(a)
		s.awaitLead(a)
		b, same := s.member(s.opt(), asynq.SchedulerOpts{})
		if entry != same {
			t.Fatalf("one entry has the IDs %s and %s", entry, same)
		}
		s.start(b)
		s.awaitTicks(10)
		if b.Leads() {
			t.Error("two schedulers lead")
		}
		proxy.Down()
		s.awaitLead(b)
		if a.Leads() {
			t.Error("the old leader believes that it leads")
		}
		s.awaitTicks(15)
		proxy.Resume()
		s.awaitTicks(10)
		if a.Leads() {
			t.Error("two schedulers lead")
		}
		b.Shutdown()
		s.awaitLead(a)
		s.awaitTicks(5)
		a.Shutdown()
		s.wantEachTickOnce(entry, 40)
	})
}

// What a frozen leader sent when it was frozen, and what it sends when it wakes up, changes nothing.
func TestGroupLeaderIsFrozen(t *testing.T) {
	everywhere(t, func(s *site) {
		proxy, opt := s.proxy()
		a, entry := s.member(opt, asynq.SchedulerOpts{})
		s.start(a)
		s.awaitLead(a)
		b, _ := s.member(s.opt(), asynq.SchedulerOpts{})
		s.start(b)
		s.awaitTicks(5)
		for range 2 {
			proxy.Blackhole() // with a tick in it soon
			s.awaitLead(b)
			s.awaitTicks(15)
			proxy.Resume()
			s.awaitTicks(5)
			b.Shutdown()
			s.awaitLead(a)
			b, _ = s.member(s.opt(), asynq.SchedulerOpts{})
			s.start(b)
		}
		a.Shutdown()
		b.Shutdown()
		s.wantEachTickOnce(entry, 40)
	})
}

// A leader that is held up between its ticks, but not in renewing its lead, goes on where it was.
func TestGroupLeaderIsSlow(t *testing.T) {
	everywhere(t, func(s *site) {
		slow := true
		a, entry := s.member(s.opt(), asynq.SchedulerOpts{PreEnqueueFunc: func(*asynq.Task, []asynq.Option) {
			if slow {
				slow = false
				time.Sleep(2 * testLease) // longer than the deadline that the tick began with
			}
		}})
		s.start(a)
		s.awaitTicks(30)
		a.Shutdown()
		s.wantEachTickOnce(entry, 30)
	})
}

// A leader whose lease is over by Redis's clock hears so with its next tick. It asks for the lead at once, and not for the tick
// again and again.
func TestGroupClockJumps(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	s := newSite(t, r, r.Client())
	proxy, opt := s.proxy()
	a := s.scheduler(opt, asynq.SchedulerOpts{Group: "g"})
	entry := s.registerFast(a, asynq.NewTask("fast", nil))
	s.start(a)
	s.awaitTicks(2)
	before := proxy.Commands()
	r.SetTime(time.Now().Add(time.Hour))
	s.eventually(func() bool { return s.log.count("leads its group") == 2 }, "a new term")
	if n := proxy.Commands() - before; n > 50 {
		t.Errorf("%d commands were sent", n)
	}
	s.awaitTicks(2)
	a.Shutdown()
	if s.pending() != len(s.history(entry)) {
		t.Errorf("%d tasks, %d events", s.pending(), len(s.history(entry)))
	}
}

func TestGroupReplyIsLost(t *testing.T) {
	everywhere(t, func(s *site) {
		for _, retries := range []int{-1, 3} { // with and without those of go-redis
			proxy, opt := s.proxy()
			opt.MaxRetries = retries
			told := make(map[string]int)
			a, entry := s.member(opt, asynq.SchedulerOpts{PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
				if err == nil {
					told[info.ID]++
				}
			}})
			s.start(a)
			s.awaitTicks(3)
			for range 3 {
				lost := proxy.SwallowReplies(1, "evalsha", "tick:")
				receive(s, lost.Done(), "a reply to be lost")
				dropped := proxy.LoseCommands(1, "evalsha", "tick:")
				receive(s, dropped.Done(), "a command to be lost")
				s.awaitTicks(1)
			}
			a.Shutdown()
			s.wantEachTickOnce(entry, 6)
			for id, n := range told {
				if n != 1 {
					t.Errorf("PostEnqueueFunc was told %d times of %s", n, id)
				}
			}
			if len(told) != s.pending() || len(s.history(entry)) != s.pending() {
				t.Errorf("%d tasks, %d told, %d in the history", s.pending(), len(told), len(s.history(entry)))
			}
			s.redis.FlushDB(context.Background())
		}
	})
}

// A leader that shuts down is followed at once, not at the end of its lease.
func TestGroupLeaderShutsDown(t *testing.T) {
	everywhere(t, func(s *site) {
		join := func() *asynq.Scheduler {
			sched := s.scheduler(s.opt(), asynq.SchedulerOpts{Group: "g", HeartbeatInterval: 50 * time.Millisecond})
			if _, err := sched.Register("@daily", asynq.NewTask("x", nil)); err != nil {
				t.Fatal(err)
			}
			s.start(sched)
			return sched
		}
		a := join()
		s.awaitLead(a)
		b := join()
		s.eventually(func() bool { return len(s.keys("asynq:schedulers:*}")) == 1 }, "the leader's entries")
		begun := time.Now()
		a.Shutdown()
		s.awaitLead(b)
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		s.eventually(func() bool { return len(s.entries()) == 1 }, "the new leader's entries")
	})
}

// What only the new leader has is enqueued once it leads, and not for the time before.
func TestGroupEntryOfOneMember(t *testing.T) {
	everywhere(t, func(s *site) {
		a, _ := s.member(s.opt(), asynq.SchedulerOpts{})
		b, _ := s.member(s.opt(), asynq.SchedulerOpts{})
		only := s.registerFast(b, asynq.NewTask("only", nil), asynq.Queue("low"))
		s.start(a)
		s.awaitLead(a)
		s.start(b)
		s.awaitTicks(10)
		if events := s.history(only); len(events) != 0 {
			t.Errorf("an entry that the leader does not have was enqueued %d times", len(events))
		}
		led := time.Now()
		a.Shutdown()
		s.eventually(func() bool { return len(s.history(only)) > 2 }, "the entry's ticks")
		b.Shutdown()
		if n := len(s.history(only)); n > int(time.Since(led)/fast)+1 {
			t.Errorf("%d ticks in %v", n, time.Since(led))
		}
	})
}

func TestGroupEntryIDs(t *testing.T) {
	everywhere(t, func(s *site) {
		register := func(group string, cfg asynq.PeriodicTaskConfig) string {
			t.Helper()
			id, err := s.scheduler(s.opt(), asynq.SchedulerOpts{Group: group}).RegisterConfig(cfg)
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
				t.Errorf("%+v has another ID", same)
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
				t.Errorf("%d has the ID of %d", i, other)
			}
			seen[got] = i
		}
		twins := s.scheduler(s.opt(), asynq.SchedulerOpts{Group: "g"})
		var ids []string
		for range 3 {
			got, err := twins.RegisterConfig(base)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, got)
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != 3 || !slices.Contains(ids, id) {
			t.Errorf("twins have the IDs %v", ids)
		}
	})
}

// A full Redis takes the tick once it has room again.
func TestGroupFullRedis(t *testing.T) {
	t.Parallel()
	s, _ := onServer(t, "--maxmemory-policy", "noeviction")
	ctx := context.Background()
	faults := make(chan error, 10_000)
	a, entry := s.member(s.opt(), asynq.SchedulerOpts{PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
		if err != nil {
			faults <- err
		}
	}})
	s.start(a)
	s.awaitTicks(3)
	if err := s.redis.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := receive(s, faults, "a fault"); !errors.Is(err, asynq.ErrRedisFull) {
		t.Errorf("told of %v", err)
	}
	for range 3 {
		if err := receive(s, faults, "more faults"); !errors.Is(err, asynq.ErrRedisFull) {
			t.Errorf("told of %v", err)
		}
	}
	if !a.Leads() {
		t.Error("a full Redis ended the lead")
	}
	if err := s.redis.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	s.awaitTicks(20)
	a.Shutdown()
	s.wantEachTickOnce(entry, 20)
}

// A refused tick is over, and the next ones are not held up.
func TestGroupRefusedTick(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("taken")
		results := make(chan error, 1000)
		a := s.scheduler(s.opt(), asynq.SchedulerOpts{Group: "g", PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) { results <- err }})
		s.registerFast(a, asynq.NewTask("x", nil), asynq.TaskID("taken"))
		s.start(a)
		for range 3 {
			if err := receive(s, results, "a tick"); !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Errorf("told of %v", err)
			}
		}
		if s.redis.RPop(context.Background(), s.queue.Pending()).Err() != nil || s.redis.Del(context.Background(), s.queue.Task("taken")).Err() != nil {
			t.Fatal("the task cannot be removed")
		}
		for receive(s, results, "a tick that succeeds") != nil {
		}
	})
}

// Two groups on one Redis are strangers, and so are a group's namesakes in two namespaces.
func TestGroupsAreApart(t *testing.T) {
	everywhere(t, func(s *site) {
		for _, opt := range []asynq.RedisConnOpt{s.opt(), asynq.WithNamespace(s.opt(), "other")} {
			for _, group := range []string{"g", "h"} {
				sched := s.scheduler(opt, asynq.SchedulerOpts{Group: group})
				s.start(sched)
				s.awaitLead(sched)
			}
		}
	})
}
