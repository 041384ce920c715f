package guarantee_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// receive returns the leases of one Receive call for n tasks. It fails the test if there are none.
func receive(env *testenv.Env, r *asynq.Receiver, n int) []*asynq.Lease {
	env.T.Helper()
	leases, err := r.Receive(env.Context(), n)
	if err != nil || len(leases) == 0 || len(leases) > n {
		env.T.Fatalf("received %d tasks, requested %d, error %v", len(leases), n, err)
	}
	return leases
}

// startReceive calls Receive in the background and sends the leases.
func startReceive(ctx context.Context, r *asynq.Receiver, n int, queues ...string) <-chan []*asynq.Lease {
	received := make(chan []*asynq.Lease, 1)
	go func() {
		leases, _ := r.Receive(ctx, n, queues...) // no leases if it fails
		received <- leases
	}()
	return received
}

// ids returns the task IDs of leases, in order.
func ids(leases []*asynq.Lease) (ids []string) {
	for _, l := range leases {
		ids = append(ids, l.ID())
	}
	return ids
}

// wantIDs requires that the leases belong to the tasks with these IDs, in order.
func wantIDs(env *testenv.Env, leases []*asynq.Lease, want ...string) {
	env.T.Helper()
	if got := ids(leases); !slices.Equal(got, want) {
		env.T.Fatalf("received %q, want %q", got, want)
	}
}

func TestLeaseOutcomes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
		boom := errors.New("boom")
		outcomes := []struct {
			id                string
			opts              []asynq.Option
			settle            func(l *asynq.Lease) error
			same              asynq.Settlement // the same outcome, for a reference
			state             string
			processed, failed int64 // attempts
		}{
			{"done", nil, func(l *asynq.Lease) error { return l.Complete(env.Context(), []byte("gone")) }, asynq.Settlement{Result: []byte("gone")}, "", 1, 0},
			{"kept", []asynq.Option{asynq.Retention(time.Hour)}, func(l *asynq.Lease) error { return l.Complete(env.Context(), []byte("whole")) }, asynq.Settlement{Result: []byte("whole")}, "completed", 1, 0},
			{"failed", nil, func(l *asynq.Lease) error { return l.Fail(env.Context(), boom) }, asynq.Settlement{Err: boom}, "retry", 1, 1},
			{"last", []asynq.Option{asynq.MaxRetry(0)}, func(l *asynq.Lease) error { return l.Fail(env.Context(), boom) }, asynq.Settlement{Err: boom}, "archived", 1, 1},
			{"skipped", nil, func(l *asynq.Lease) error { return l.Fail(env.Context(), asynq.SkipRetry) }, asynq.Settlement{Err: asynq.SkipRetry}, "archived", 1, 1},
			{"revoked", nil, func(l *asynq.Lease) error { return l.Fail(env.Context(), asynq.RevokeTask) }, asynq.Settlement{Err: asynq.RevokeTask}, "", 1, 0},
			{"snoozed", nil, func(l *asynq.Lease) error { return l.Fail(env.Context(), asynq.Snooze(time.Hour)) }, asynq.Settlement{Err: asynq.Snooze(time.Hour)}, "retry", 0, 0},
			{"released", nil, func(l *asynq.Lease) error { return l.Release(env.Context()) }, asynq.Settlement{Release: true}, "pending", 0, 0},
		}
		var processed, failed int64
		for _, e := range outcomes {
			env.Enqueue(e.id, append(e.opts, asynq.Queue("default"))...)
			l := receive(env, receiver, 1)[0]
			wantIDs(env, []*asynq.Lease{l}, e.id)
			if l.Queue() != "default" || l.Task().Type() != e.id || l.Info().State != asynq.TaskStateActive {
				t.Errorf("%s: lease of %q, task %q, %v", e.id, l.Queue(), l.Task().Type(), l.Info())
			}
			env.NoError(e.settle(l))
			if got := env.State(e.id); got != e.state {
				t.Errorf("%s: state %q, want %q", e.id, got, e.state)
			}
			if err := context.Cause(l.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cause of the context: %v, want Canceled", e.id, err)
			}
			processed += e.processed
			failed += e.failed
			env.WantCounts(processed, failed)
			// The second call on the same lease, and one on a reopened lease, have no effect.
			env.NoError(e.settle(l))
			e.same.Ref = l.Ref()
			env.NoError(receiver.Settle(env.Context(), e.same)[0])
			env.WantCounts(processed, failed)
			if e.state == "pending" {
				env.NoError(env.Inspector().DeleteTask("default", e.id))
			}
		}
		if info, err := env.Inspector().GetTaskInfo("default", "kept"); err != nil || string(info.Result) != "whole" {
			t.Errorf("info of the completed task: %v, error %v", info, err)
		}
		if msg := env.Message("failed"); msg.Retried != 1 || msg.LastErr != "boom" {
			t.Errorf("Retried %d, last error %q", msg.Retried, msg.LastErr)
		}
	})
}

func TestReceiveWaitsForTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{TaskCheckInterval: time.Hour, Queues: map[string]int{"default": 1, "other": 1}})
		received := startReceive(env.Context(), receiver, 5)
		env.Enqueue("a")
		wantIDs(env, testenv.Await(env, received, "the task"), "a")

		// Without a Receive call, the task stays in pending.
		env.Enqueue("b")
		env.CheckInvariants("without a Receive call")
		if got := env.State("b"); got != "pending" {
			t.Errorf("without a Receive call, the task is in state %q", got)
		}
		wantIDs(env, receive(env, receiver, 5), "b")

		// Receive returns tasks of the requested queues only.
		received = startReceive(env.Context(), receiver, 5, "other", "third")
		env.Enqueue("c")
		env.Enqueue("d", asynq.Queue("third"))
		wantIDs(env, testenv.Await(env, received, "the task"), "d")
		if got := env.State("c"); got != "pending" {
			t.Errorf("the task of another queue is in state %q", got)
		}
	})
}

func TestReceiveFetchesAtMostTheRequestedTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{Queues: map[string]int{"default": 3, "low": 1}})
		for i := range 12 {
			env.Enqueue(string(rune('a'+i)), asynq.Queue([]string{"default", "low"}[i%2]))
		}
		seen := 0
		for _, n := range []int{1, 4, 7} {
			for got := 0; got < n; {
				leases := receive(env, receiver, n-got)
				got += len(leases)
				seen += len(leases)
			}
			if held := env.RDB.LLen(env.Context(), env.Queue.Active()).Val(); held > int64(seen) {
				t.Errorf("%d tasks are active, %d were received", held, seen)
			}
		}
	})
}

func TestCanceledReceiveReturnsTasks(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{})
		const tasks = 200
		env.EnqueueMany(tasks)
		var kept []*asynq.Lease
		for i := range 40 {
			ctx, cancel := context.WithCancel(env.Context())
			received := startReceive(ctx, receiver, 3)
			if i%4 > 0 {
				time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			}
			kept = append(kept, testenv.Await(env, received, "Receive to return")...)
			cancel()
		}
		receiver.Shutdown() // a fetch may still be in flight
		env.CheckInvariants("after the shutdown")
		if pending := env.RDB.LLen(env.Context(), env.Queue.Pending()).Val(); pending != int64(tasks-len(kept)) {
			t.Errorf("%d tasks are pending, %d of %d were received", pending, len(kept), tasks)
		}
		next := env.Receiver(asynq.ReceiverConfig{})
		for n := len(kept); n < tasks; {
			leases := receive(env, next, tasks)
			n += len(leases)
			for _, l := range leases {
				env.NoError(l.Complete(env.Context(), nil))
			}
		}
		for _, l := range kept {
			env.NoError(next.Settle(env.Context(), asynq.Settlement{Ref: l.Ref()})[0])
		}
		env.AwaitEmpty()
		env.WantCounts(tasks, 0)
	})
}

func TestUnextendedLeaseExpires(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{LeaseDuration: time.Second})
		env.Enqueue("a")
		lost := receive(env, receiver, 1)[0]
		again := receive(env, env.Receiver(asynq.ReceiverConfig{}), 1)[0] // returns after the lease expired
		if again.ID() != "a" || again.Info().Retried != 1 || again.Info().LastErr != asynq.ErrLeaseExpired.Error() {
			t.Fatalf("received %+v", again.Info())
		}
		select {
		case <-lost.Context().Done():
			env.ErrorIs(context.Cause(lost.Context()), asynq.ErrLeaseExpired)
		default:
			t.Error("the context of the lost lease is not canceled")
		}
		_, err := lost.Extend(env.Context())
		env.ErrorIs(err, asynq.ErrLeaseExpired)
		_, err = receiver.OpenLease(env.Context(), lost.Ref())
		env.ErrorIs(err, asynq.ErrLeaseExpired)
		for _, outcome := range []asynq.Settlement{{}, {Err: errors.New("late")}, {Release: true}} {
			held, elsewhere := outcome, outcome
			held.Lease, elsewhere.Ref = lost, lost.Ref()
			for _, err := range receiver.Settle(env.Context(), held, elsewhere) {
				env.ErrorIs(err, asynq.ErrLeaseExpired)
			}
		}
		env.WantCounts(1, 1)
		env.NoError(again.Complete(env.Context(), nil))
		env.WantCounts(2, 1)
		env.AwaitEmpty()
	})
}

func TestExtendedLeaseLasts(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		cfg := asynq.ReceiverConfig{LeaseDuration: 5 * time.Second} // longer than a busy machine stops the test
		here, there := env.Receiver(cfg), env.Receiver(cfg)
		env.Enqueue("a")
		env.Enqueue("b")
		leases := receive(env, here, 2)
		held, err := there.OpenLease(env.Context(), leases[0].Ref())
		env.NoError(err)
		if held.Task().Type() != "a" || held.Info().MaxRetry != 25 {
			t.Errorf("loaded %+v", held.Info())
		}
		// Both leases last equally long. Only the first is extended, at the other receiver.
		env.Eventually(func() bool {
			until, err := held.Extend(env.Context())
			if err != nil || until.Before(time.Now()) {
				env.T.Fatalf("extended until %v, error %v", until, err)
			}
			return env.Message("b").Retried == 1
		}, "the other lease to expire")
		if got := env.State("a"); got != "active" {
			t.Errorf("the task with the extended lease is in state %q", got)
		}
		env.NoError(held.Complete(env.Context(), nil))
		env.AwaitState("a", "")
	})
}

func TestLeaseEndsAtTheDeadline(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		cfg := asynq.ReceiverConfig{LeaseDuration: 5 * time.Second} // longer than a busy machine stops the test
		receiver := env.Receiver(cfg)
		env.Enqueue("a", asynq.Timeout(time.Second))
		l := receive(env, receiver, 1)[0]
		elsewhere, err := env.Receiver(cfg).OpenLease(env.Context(), l.Ref())
		env.NoError(err)
		if d := l.Deadline().Sub(elsewhere.Deadline()); d < 0 || d > testenv.Timeout { // the token contains the time of the fetch
			t.Errorf("the deadlines of the two leases differ by %v", d)
		}
		until, err := l.Extend(env.Context())
		if late := until.Sub(l.Deadline()); err == nil && late > time.Second { // rounded up
			t.Errorf("extended until %v after the deadline", late)
		}
		testenv.Await(env, l.Context().Done(), "the deadline")
		env.ErrorIs(context.Cause(l.Context()), context.DeadlineExceeded)
		_, err = l.Extend(env.Context())
		env.ErrorIs(err, context.DeadlineExceeded)
		again := receive(env, receiver, 1)[0]
		if again.Info().Retried != 1 {
			t.Errorf("Retried is %d, want 1", again.Info().Retried)
		}
	})
}

func TestCancelProcessingCancelsLeases(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		here, there := env.Receiver(asynq.ReceiverConfig{}), env.Receiver(asynq.ReceiverConfig{})
		env.Enqueue("canceled-by-hand")
		l := receive(env, here, 1)[0]
		other, err := there.OpenLease(env.Context(), l.Ref())
		env.NoError(err)
		_, err = other.Extend(env.Context())
		env.NoError(err)
		env.Eventually(func() bool {
			env.NoError(env.Inspector().CancelProcessing(l.ID())) // repeated, because the receivers may not have subscribed yet
			return context.Cause(l.Context()) != nil && context.Cause(other.Context()) != nil
		}, "the cancellation")
		env.ErrorIs(context.Cause(l.Context()), asynq.ErrTaskCanceled)
		env.ErrorIs(context.Cause(other.Context()), asynq.ErrTaskCanceled)
		env.NoError(other.Fail(env.Context(), context.Canceled))
		env.AwaitState(l.ID(), "retry")
	})
}

func TestConcurrencyOneKeepsOrderAcrossReceivers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const tasks = 60
		var order testenv.Tally
		done := make(chan struct{}, 3)
		ctx, cancel := context.WithCancel(env.Context())
		defer cancel()
		for i := range 3 {
			receiver := env.Receiver(asynq.ReceiverConfig{QueueConcurrency: map[string]int{"default": 1}, TaskCheckInterval: 5 * time.Millisecond})
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					leases, err := receiver.Receive(ctx, 1+i)
					if err != nil {
						return
					}
					for _, l := range leases {
						order.Add(l.ID())
						if held := env.RDB.LLen(ctx, env.Queue.Active()).Val(); held > 1 {
							t.Errorf("%d tasks are active, want at most 1", held)
						}
						env.NoError(l.Complete(env.Context(), nil))
					}
				}
			}()
		}
		env.EnqueueMany(tasks)
		env.AwaitEmpty()
		cancel()
		for range 3 {
			testenv.Await(env, done, "the receivers to return")
		}
		var want []string
		for i := range tasks {
			want = append(want, "t"+strconv.Itoa(i))
		}
		if got := order.Order(); !slices.Equal(got, want) {
			t.Errorf("the order is %q", got)
		}
	})
}

func TestReceiverRunsMaintenance(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{DelayedTaskCheckInterval: 10 * time.Millisecond, JanitorInterval: 10 * time.Millisecond})
		env.Enqueue("later", asynq.ProcessIn(time.Second), asynq.Retention(time.Second))
		l := receive(env, receiver, 1)[0]
		servers, err := env.Inspector().Servers()
		if err != nil {
			t.Fatal(err)
		}
		if len(servers) != 1 || servers[0].Queues["default"] != 1 {
			t.Errorf("servers %+v, want one", servers)
		}
		env.NoError(l.Complete(env.Context(), nil))
		env.AwaitEmpty()
		receiver.Shutdown()
		if servers, err := env.Inspector().Servers(); err != nil || len(servers) != 0 {
			t.Errorf("servers %v, error %v, want none", servers, err)
		}
	})
}

func TestReceiverSetQueues(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{DelayedTaskCheckInterval: 10 * time.Millisecond, QueueConcurrency: map[string]int{"default": 1}})
		env.EnqueueMany(2)
		wantIDs(env, receive(env, receiver, 2), "t0")
		received := startReceive(env.Context(), receiver, 2, "default")
		env.NoError(receiver.SetQueues(map[string]int{"new": 1}, map[string]asynq.QueueConfig{"default": {Concurrency: 2}}))
		wantIDs(env, testenv.Await(env, received, "the task that the new limit admits"), "t1")
		env.Enqueue("later", asynq.Queue("new"), asynq.ProcessIn(time.Second))
		wantIDs(env, receive(env, receiver, 1), "later")
	})
}

func TestReceiverShutdownKeepsLeases(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		old := env.Receiver(asynq.ReceiverConfig{})
		env.EnqueueMany(2)
		leases := receive(env, old, 2)
		result := make(chan error, 1)
		go func() {
			_, err := old.Receive(env.Context(), 1)
			result <- err
		}()
		start := time.Now()
		old.Shutdown()
		old.Shutdown()
		if took := time.Since(start); took > 2*time.Second+testenv.Slack {
			t.Errorf("Shutdown took %v", took)
		}
		env.ErrorIs(testenv.Await(env, result, "Receive to return"), asynq.ErrReceiverClosed)
		env.ErrorIs(leases[0].Complete(env.Context(), nil), asynq.ErrReceiverClosed)
		if got := env.State("t0"); got != "active" {
			t.Errorf("after the shutdown, the task is in state %q", got)
		}
		next := env.Receiver(asynq.ReceiverConfig{})
		for i, err := range next.Settle(env.Context(),
			asynq.Settlement{Ref: leases[0].Ref()},
			asynq.Settlement{Ref: leases[1].Ref(), Err: errors.New("boom")},
			asynq.Settlement{Ref: leases[1].Ref(), Err: errors.New("boom")},
		) {
			if err != nil {
				t.Errorf("settlement %d: %v", i, err)
			}
		}
		env.WantCounts(2, 1)
	})
}

func TestReceiveWithLostReply(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		receiver := env.ReceiverOn(opt, asynq.ReceiverConfig{})
		env.EnqueueMany(20)
		var all []*asynq.Lease
		for i := 0; len(all) < 20; i++ {
			if i < 5 {
				proxy.SwallowReplies(1, "evalsha")
			}
			all = append(all, receive(env, receiver, 4)...)
		}
		if got := ids(all); len(slices.Compact(slices.Sorted(slices.Values(got)))) != 20 {
			t.Errorf("received %q", got)
		}
		for _, l := range all[:10] {
			env.NoError(l.Complete(env.Context(), nil))
			env.NoError(l.Complete(env.Context(), nil))
		}
		proxy.SwallowReplies(1, "evalsha")
		for _, l := range all[10:] {
			env.NoError(l.Release(env.Context()))
		}
		env.WantCounts(10, 0)
		wantIDs(env, receive(env, receiver, 1), all[19].ID())
	})
}

// Neither the queues of a Receiver nor those of a Receive call are created before their first task.
func TestReceiverCreatesNoQueues(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{Queues: map[string]int{"configured": 1}})
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, err := receiver.Receive(ctx, 1, "configured", "unknown"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Receive: %v", err)
		}
		env.NoError(receiver.SetQueues(map[string]int{"other": 1}, nil))
		env.Enqueue("first", asynq.Queue("unknown"))
		leases, err := receiver.Receive(env.Context(), 1, "unknown", "nothing")
		if err != nil {
			t.Fatal(err)
		}
		env.NoError(leases[0].Complete(env.Context(), nil))
		queues, err := env.Inspector().Queues()
		if err != nil || !slices.Equal(queues, []string{"unknown"}) {
			t.Errorf("queues %q, error %v; want only the queue that had a task", queues, err)
		}
	})
}
