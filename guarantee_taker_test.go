package asynq_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// taker starts a Taker straight on Redis, which is shut down when the test ends.
func (s *site) taker(cfg asynq.TakerConfig) *asynq.Taker {
	s.t.Helper()
	return s.takerOn(s.opt(), cfg)
}

func (s *site) takerOn(opt asynq.RedisConnOpt, cfg asynq.TakerConfig) *asynq.Taker {
	s.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = asynq.NewSlogLogger(slog.New(s.log))
	}
	t := asynq.NewTaker(opt, cfg)
	if err := t.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(t.Shutdown)
	return t
}

// ctx ends when a test has lost its patience.
func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// take takes tasks, of which there must be some.
func (s *site) take(t *asynq.Taker, n int) []*asynq.Lease {
	s.t.Helper()
	leases, err := t.Take(s.ctx(), n)
	if err != nil || len(leases) == 0 || len(leases) > n {
		s.t.Fatalf("took %d tasks of %d, error %v", len(leases), n, err)
	}
	return leases
}

// taking takes in the background.
func (s *site) taking(ctx context.Context, t *asynq.Taker, n int, queues ...string) <-chan []*asynq.Lease {
	taken := make(chan []*asynq.Lease, 1)
	go func() {
		leases, _ := t.Take(ctx, n, queues...) // nothing where there was an error
		taken <- leases
	}()
	return taken
}

// ok fails the test if there is an error.
func (s *site) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// is fails the test unless the error is the one wanted.
func (s *site) is(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Errorf("got the error %v, want %v", err, want)
	}
}

func ids(leases []*asynq.Lease) (ids []string) {
	for _, l := range leases {
		ids = append(ids, l.ID())
	}
	return ids
}

func (s *site) wantIDs(leases []*asynq.Lease, want ...string) {
	s.t.Helper()
	if got := ids(leases); !slices.Equal(got, want) {
		s.t.Fatalf("took %q, want %q", got, want)
	}
}

func TestTakenTasksEndAsTheirHolderSays(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
		boom := errors.New("boom")
		ends := []struct {
			id    string
			opts  []asynq.Option
			end   func(l *asynq.Lease) error
			state string
			n, f  int64 // what it counts
		}{
			{"done", nil, func(l *asynq.Lease) error { return l.Done(s.ctx(), []byte("gone")) }, "", 1, 0},
			{"kept", []asynq.Option{asynq.Retention(time.Hour)}, func(l *asynq.Lease) error { return l.Done(s.ctx(), []byte("whole")) }, "completed", 1, 0},
			{"failed", nil, func(l *asynq.Lease) error { return l.Fail(s.ctx(), boom) }, "retry", 1, 1},
			{"last", []asynq.Option{asynq.MaxRetry(0)}, func(l *asynq.Lease) error { return l.Fail(s.ctx(), boom) }, "archived", 1, 1},
			{"skipped", nil, func(l *asynq.Lease) error { return l.Fail(s.ctx(), asynq.SkipRetry) }, "archived", 1, 1},
			{"revoked", nil, func(l *asynq.Lease) error { return l.Fail(s.ctx(), asynq.RevokeTask) }, "", 1, 0},
			{"snoozed", nil, func(l *asynq.Lease) error { return l.Fail(s.ctx(), asynq.Snooze(time.Hour)) }, "retry", 0, 0},
			{"released", nil, func(l *asynq.Lease) error { return l.Release(s.ctx()) }, "pending", 0, 0},
		}
		var processed, failed int64
		for _, e := range ends {
			s.enqueue(e.id, append(e.opts, asynq.Queue("default"))...)
			l := s.take(taker, 1)[0]
			s.wantIDs([]*asynq.Lease{l}, e.id)
			if l.Queue() != "default" || l.Task().Type() != e.id || l.Info().State != asynq.TaskStateActive {
				t.Errorf("%s: lease of %q, task %q, %v", e.id, l.Queue(), l.Task().Type(), l.Info())
			}
			s.ok(e.end(l))
			if got := s.state(e.id); got != e.state {
				t.Errorf("%s: state %q, want %q", e.id, got, e.state)
			}
			if err := context.Cause(l.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: its context ended with %v", e.id, err)
			}
			processed += e.n
			failed += e.f
			s.wantCounts(processed, failed)
			// Again, on the same lease, and as another taker's holder would.
			s.ok(e.end(l))
			s.ok(e.end(taker.Lease("default", e.id, l.Token())))
			s.wantCounts(processed, failed)
			if e.state == "pending" {
				s.ok(s.inspector().DeleteTask("default", e.id))
			}
		}
		if info, err := s.inspector().GetTaskInfo("default", "kept"); err != nil || string(info.Result) != "whole" {
			t.Errorf("the result is lost: %v, error %v", info, err)
		}
		if msg := s.message("failed"); msg.Retried != 1 || msg.LastErr != "boom" {
			t.Errorf("the failure is %d times %q", msg.Retried, msg.LastErr)
		}
	})
}

func TestATakeWaitsForTasks(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{TaskCheckInterval: time.Hour, Queues: map[string]int{"default": 1, "other": 1}})
		taken := s.taking(s.ctx(), taker, 5)
		s.enqueue("a")
		s.wantIDs(receive(s, taken, "the task"), "a")

		// Nobody waits: the task stays where it is.
		s.enqueue("b")
		s.sound("nobody waits")
		if got := s.state("b"); got != "pending" {
			t.Errorf("the task is %q, though nobody waits for it", got)
		}
		s.wantIDs(s.take(taker, 5), "b")

		// It is taken only from the queues that were asked for.
		taken = s.taking(s.ctx(), taker, 5, "other", "third")
		s.enqueue("c")
		s.enqueue("d", asynq.Queue("third"))
		s.wantIDs(receive(s, taken, "the task"), "d")
		if got := s.state("c"); got != "pending" {
			t.Errorf("a task of a queue that nobody asked for is %q", got)
		}
	})
}

func TestNoMoreTasksAreTakenThanAskedFor(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{Queues: map[string]int{"default": 3, "low": 1}})
		for i := range 12 {
			s.enqueue(string(rune('a'+i)), asynq.Queue([]string{"default", "low"}[i%2]))
		}
		seen := 0
		for _, n := range []int{1, 4, 7} {
			for got := 0; got < n; {
				leases := s.take(taker, n-got)
				got += len(leases)
				seen += len(leases)
			}
			if held := s.redis.LLen(s.ctx(), s.queue.Active()).Val(); held > int64(seen) {
				t.Errorf("%d tasks are active, %d were taken", held, seen)
			}
		}
	})
}

func TestACanceledTakeLeavesNoTaskWithoutOwner(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{})
		const tasks = 200
		s.enqueueMany(tasks)
		var kept []*asynq.Lease
		for i := range 40 {
			ctx, cancel := context.WithCancel(s.ctx())
			taken := s.taking(ctx, taker, 3)
			if i%4 > 0 {
				time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			}
			kept = append(kept, receive(s, taken, "the end of a Take")...)
			cancel()
		}
		taker.Shutdown() // a fetch may be on its way still
		s.sound("all came back")
		if pending := s.redis.LLen(s.ctx(), s.queue.Pending()).Val(); pending != int64(tasks-len(kept)) {
			t.Errorf("%d tasks are pending, and %d of %d taken", pending, len(kept), tasks)
		}
		next := s.taker(asynq.TakerConfig{})
		for n := len(kept); n < tasks; {
			leases := s.take(next, tasks)
			n += len(leases)
			for _, l := range leases {
				s.ok(l.Done(s.ctx(), nil))
			}
		}
		for _, l := range kept {
			s.ok(next.Lease(l.Queue(), l.ID(), l.Token()).Done(s.ctx(), nil))
		}
		s.awaitEmpty()
		s.wantCounts(tasks, 0)
	})
}

func TestASilentHolderLosesItsLease(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{LeaseDuration: time.Second})
		s.enqueue("a")
		lost := s.take(taker, 1)[0]
		again := s.take(s.taker(asynq.TakerConfig{}), 1)[0] // when its lease has ended
		if again.ID() != "a" || again.Info().Retried != 1 || again.Info().LastErr != asynq.ErrLeaseExpired.Error() {
			t.Fatalf("took %+v", again.Info())
		}
		select {
		case <-lost.Canceled():
			s.is(context.Cause(lost.Context()), asynq.ErrLeaseExpired)
		default:
			t.Error("the context of the lost lease goes on")
		}
		for _, l := range []*asynq.Lease{lost, taker.Lease("default", "a", lost.Token())} {
			_, err := l.Extend(s.ctx())
			s.is(err, asynq.ErrLeaseExpired)
			s.is(l.Done(s.ctx(), nil), asynq.ErrLeaseExpired)
			s.is(l.Fail(s.ctx(), errors.New("late")), asynq.ErrLeaseExpired)
			s.is(l.Release(s.ctx()), asynq.ErrLeaseExpired)
		}
		s.wantCounts(1, 1)
		s.ok(again.Done(s.ctx(), nil))
		s.wantCounts(2, 1)
		s.awaitEmpty()
	})
}

func TestAnExtendedLeaseLasts(t *testing.T) {
	everywhere(t, func(s *site) {
		here, there := s.taker(asynq.TakerConfig{LeaseDuration: 2 * time.Second}), s.taker(asynq.TakerConfig{LeaseDuration: 2 * time.Second})
		s.enqueue("a")
		s.enqueue("b")
		leases := s.take(here, 2)
		held := there.Lease("default", "a", leases[0].Token())
		s.ok(held.Load(s.ctx()))
		if held.Task().Type() != "a" || held.Info().MaxRetry != 25 {
			t.Errorf("loaded %+v", held.Info())
		}
		// Two leases run for two seconds. The one that is extended at the other taker outlives that which is not.
		s.eventually(func() bool {
			until, err := held.Extend(s.ctx())
			if err != nil || until.Before(time.Now()) {
				t.Fatalf("extended until %v, error %v", until, err)
			}
			return s.message("b").Retried == 1
		}, "the other lease to end")
		if got := s.state("a"); got != "active" {
			t.Errorf("the task whose lease was extended is %q", got)
		}
		s.ok(held.Done(s.ctx(), nil))
		s.awaitState("a", "")
	})
}

func TestALeaseIsNotExtendedPastTheDeadline(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{LeaseDuration: 2 * time.Second})
		s.enqueue("a", asynq.Timeout(time.Second))
		l := s.take(taker, 1)[0]
		elsewhere := s.taker(asynq.TakerConfig{LeaseDuration: 2 * time.Second}).Lease("default", "a", l.Token())
		s.ok(elsewhere.Load(s.ctx()))
		if d := l.Deadline().Sub(elsewhere.Deadline()); d < 0 || d > patience { // the token says when the fetch was sent
			t.Errorf("the deadline elsewhere is off by %v", d)
		}
		until, err := l.Extend(s.ctx())
		if late := until.Sub(l.Deadline()); err == nil && late > time.Second {
			t.Errorf("extended until %v after the deadline", late)
		}
		receive(s, l.Canceled(), "the deadline")
		s.is(context.Cause(l.Context()), context.DeadlineExceeded)
		_, err = l.Extend(s.ctx())
		s.is(err, context.DeadlineExceeded)
		again := s.take(taker, 1)[0]
		if again.Info().Retried != 1 {
			t.Errorf("took it again after %d failures", again.Info().Retried)
		}
	})
}

func TestACancellationReachesTheHolder(t *testing.T) {
	everywhere(t, func(s *site) {
		here, there := s.taker(asynq.TakerConfig{}), s.taker(asynq.TakerConfig{})
		s.enqueue("canceled-by-hand")
		l := s.take(here, 1)[0]
		other := there.Lease("default", l.ID(), l.Token())
		_, err := other.Extend(s.ctx())
		s.ok(err)
		s.eventually(func() bool {
			s.ok(s.inspector().CancelProcessing(l.ID())) // again, as the takers may not listen yet
			return context.Cause(l.Context()) != nil && context.Cause(other.Context()) != nil
		}, "the cancellation")
		s.is(context.Cause(l.Context()), asynq.ErrTaskCanceled)
		s.is(context.Cause(other.Context()), asynq.ErrTaskCanceled)
		s.ok(other.Fail(s.ctx(), context.Canceled))
		s.awaitState(l.ID(), "retry")
	})
}

func TestOneAtATimeKeepsTheOrderOverTakers(t *testing.T) {
	everywhere(t, func(s *site) {
		const tasks = 60
		var order tally
		done := make(chan struct{}, 3)
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		for i := range 3 {
			taker := s.taker(asynq.TakerConfig{QueueConcurrency: map[string]int{"default": 1}, TaskCheckInterval: 5 * time.Millisecond})
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					leases, err := taker.Take(ctx, 1+i)
					if err != nil {
						return
					}
					for _, l := range leases {
						order.add(l.ID())
						if held := s.redis.LLen(ctx, s.queue.Active()).Val(); held > 1 {
							t.Errorf("%d tasks are active", held)
						}
						s.ok(l.Done(s.ctx(), nil))
					}
				}
			}()
		}
		s.enqueueMany(tasks)
		s.awaitEmpty()
		cancel()
		for range 3 {
			receive(s, done, "the takers")
		}
		var want []string
		for i := range tasks {
			want = append(want, "t"+strconv.Itoa(i))
		}
		if got := order.order(); !slices.Equal(got, want) {
			t.Errorf("the order is %q", got)
		}
	})
}

func TestATakerDoesWhatTasksNeedFromTimeToTime(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{DelayedTaskCheckInterval: 10 * time.Millisecond, JanitorInterval: 10 * time.Millisecond})
		s.enqueue("later", asynq.ProcessIn(time.Second), asynq.Retention(time.Second))
		l := s.take(taker, 1)[0]
		servers, err := s.inspector().Servers()
		if err != nil {
			t.Fatal(err)
		}
		if len(servers) != 1 || servers[0].Queues["default"] != 1 {
			t.Errorf("the servers are %+v", servers)
		}
		s.ok(l.Done(s.ctx(), nil))
		s.awaitEmpty()
		taker.Shutdown()
		if servers, err := s.inspector().Servers(); err != nil || len(servers) != 0 {
			t.Errorf("the servers are %v, error %v", servers, err)
		}
	})
}

func TestQueuesOfATakerChange(t *testing.T) {
	everywhere(t, func(s *site) {
		taker := s.taker(asynq.TakerConfig{DelayedTaskCheckInterval: 10 * time.Millisecond, QueueConcurrency: map[string]int{"default": 1}})
		s.enqueueMany(2)
		s.wantIDs(s.take(taker, 2), "t0")
		taken := s.taking(s.ctx(), taker, 2, "default")
		s.ok(taker.SetQueues(map[string]int{"new": 1}, map[string]int{"default": 2}))
		s.wantIDs(receive(s, taken, "the task there is room for now"), "t1")
		s.enqueue("later", asynq.Queue("new"), asynq.ProcessIn(time.Second))
		s.wantIDs(s.take(taker, 1), "later")
	})
}

func TestShutdownOfATakerLosesNoLease(t *testing.T) {
	everywhere(t, func(s *site) {
		old := s.taker(asynq.TakerConfig{})
		s.enqueueMany(2)
		leases := s.take(old, 2)
		waits := make(chan error, 1)
		go func() {
			_, err := old.Take(s.ctx(), 1)
			waits <- err
		}()
		begin := time.Now()
		old.Shutdown()
		old.Shutdown()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		s.is(receive(s, waits, "the end of the Take"), asynq.ErrTakerClosed)
		s.is(leases[0].Done(s.ctx(), nil), asynq.ErrTakerClosed)
		if got := s.state("t0"); got != "active" {
			t.Errorf("the task is %q after the shutdown", got)
		}
		next := s.taker(asynq.TakerConfig{})
		for i, err := range next.Settle(s.ctx(),
			asynq.Settlement{Lease: next.Lease("default", "t0", leases[0].Token())},
			asynq.Settlement{Lease: next.Lease("default", "t1", leases[1].Token()), Err: errors.New("boom")},
			asynq.Settlement{Lease: next.Lease("default", "t1", leases[1].Token()), Err: errors.New("boom")},
		) {
			if err != nil {
				t.Errorf("settlement %d: %v", i, err)
			}
		}
		s.wantCounts(2, 1)
	})
}

func TestATakeWhoseReplyIsLostIsUndone(t *testing.T) {
	everywhere(t, func(s *site) {
		proxy, opt := s.proxy()
		taker := s.takerOn(opt, asynq.TakerConfig{})
		s.enqueueMany(20)
		var all []*asynq.Lease
		for i := 0; len(all) < 20; i++ {
			if i < 5 {
				proxy.SwallowReplies(1, "evalsha")
			}
			all = append(all, s.take(taker, 4)...)
		}
		if got := ids(all); len(slices.Compact(slices.Sorted(slices.Values(got)))) != 20 {
			t.Errorf("took %q", got)
		}
		for _, l := range all[:10] {
			s.ok(l.Done(s.ctx(), nil))
			s.ok(l.Done(s.ctx(), nil))
		}
		proxy.SwallowReplies(1, "evalsha")
		for _, l := range all[10:] {
			s.ok(l.Release(s.ctx()))
		}
		s.wantCounts(10, 0)
		s.wantIDs(s.take(taker, 1), all[19].ID())
	})
}
