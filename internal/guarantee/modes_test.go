package guarantee_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// enqueueDoc enqueues a task with a payload.
func enqueueDoc(env *testenv.Env, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	env.T.Helper()
	info, err := env.Client.Enqueue(asynq.NewTask("doc:"+payload, []byte(payload)), opts...)
	if err != nil {
		env.T.Fatal(err)
	}
	return info
}

// wantStored requires that the Inspector finds a task as the call described it.
func wantStored(env *testenv.Env, info *asynq.TaskInfo) {
	env.T.Helper()
	got, err := env.Inspector().GetTaskInfo(info.Queue, info.ID)
	if err != nil {
		env.T.Fatal(err)
	}
	if got.State != info.State || !bytes.Equal(got.Payload, info.Payload) || got.Type != info.Type || got.Retried != info.Retried ||
		got.MaxRetry != info.MaxRetry || got.LastErr != info.LastErr || got.NextProcessAt.Sub(info.NextProcessAt).Abs() > time.Minute {
		env.T.Errorf("the call returned %+v, and Redis has %+v", info, got)
	}
}

// Tasks with the same key exclude each other, whatever their types and payloads are; a task with
// Unique does not share a lock with them.
func TestUniqueKey(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		unique := asynq.UniqueKey("doc:7", time.Hour)
		first := enqueueDoc(env, "one", unique)
		_, err := env.Client.Enqueue(asynq.NewTask("other", []byte("two")), unique)
		wantDuplicate(env, err, "default", first.ID)
		enqueueDoc(env, "one", asynq.Unique(time.Hour))
		enqueueDoc(env, "two", unique, asynq.UniqueKey("doc:8", time.Hour))
		enqueueDoc(env, "three", unique, asynq.Queue("other"))
		enqueueDoc(env, "four", unique, asynq.Unique(time.Hour)) // the last one applies
		env.NoError(env.Inspector().DeleteTask("default", first.ID))
		again := enqueueDoc(env, "five", unique)
		done := make(chan struct{})
		env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			if task.Type() == "doc:five" {
				close(done)
			}
			return nil
		})
		testenv.Await(env, done, "the task")
		env.AwaitState(again.ID, "")
		enqueueDoc(env, "six", unique)
	})
}

// OnDuplicate keeps or replaces the task that waits, and returns its state.
func TestOnDuplicate(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		key := asynq.UniqueKey("k", time.Hour)
		first := enqueueDoc(env, "one", key, asynq.OnDuplicate(asynq.Keep), asynq.TaskID("t"), asynq.Header("h", "1"))
		if first.IsRepeated || first.ID != "t" || first.State != asynq.TaskStatePending {
			env.T.Errorf("the first call returns %+v", first)
		}
		wantStored(env, first)
		kept := enqueueDoc(env, "two", key, asynq.OnDuplicate(asynq.Keep))
		if !kept.IsRepeated || kept.ID != "t" || string(kept.Payload) != "one" {
			env.T.Errorf("Keep returns %+v", kept)
		}
		replaced := enqueueDoc(env, "three", key, asynq.OnDuplicate(asynq.Replace), asynq.MaxRetry(3), asynq.ProcessIn(time.Hour))
		if !replaced.IsRepeated || replaced.ID != "t" || replaced.State != asynq.TaskStateScheduled || replaced.MaxRetry != 3 || replaced.Headers != nil ||
			replaced.Type != "doc:three" || replaced.NextProcessAt.Before(time.Now().Add(time.Hour-time.Minute)) {
			env.T.Errorf("Replace returns %+v", replaced)
		}
		wantStored(env, replaced)
		results := env.Client.BatchEnqueueContext(env.Context(), []*asynq.Task{
			asynq.NewTask("a", []byte("four")), asynq.NewTask("b", []byte("five"), asynq.UniqueKey("other", time.Hour)), asynq.NewTask("c", []byte("six")),
		}, asynq.OnDuplicate(asynq.Replace))
		if err := results[0].Err; err == nil || !strings.Contains(err.Error(), "needs Unique or UniqueKey") {
			env.T.Errorf("a policy without a lock: error %v", err)
		}
		if r := results[1]; r.Err != nil || r.TaskInfo.IsRepeated {
			env.T.Errorf("a new task of a batch: %+v, error %v", r.TaskInfo, r.Err)
		}
		wantStored(env, results[1].TaskInfo)
		env.CheckInvariants("at the end")
	})
}

// A task that fails keeps its retries and its error when it is replaced, and runs with the new
// payload when its retry is due.
func TestOnDuplicateInRetry(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		opts := []asynq.Option{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Replace), asynq.TaskID("t")}
		enqueueDoc(env, "one", opts...)
		ran := make(chan string, 2)
		env.Serve(asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }}, func(_ context.Context, task *asynq.Task) error {
			ran <- string(task.Payload())
			if string(task.Payload()) == "one" {
				return errors.New("boom")
			}
			return nil
		})
		env.AwaitState("t", "retry")
		info := enqueueDoc(env, "two", opts...)
		if info.State != asynq.TaskStateRetry || info.Retried != 1 || info.LastErr != "boom" || info.LastFailedAt.IsZero() || info.NextProcessAt.Before(time.Now().Add(time.Minute)) {
			env.T.Errorf("a replaced task in retry: %+v", info)
		}
		wantStored(env, info)
		env.NoError(env.Inspector().RunTask("default", "t"))
		env.AwaitState("t", "")
		if first, second := <-ran, <-ran; first != "one" || second != "two" {
			env.T.Errorf("the payloads %q and %q ran", first, second)
		}
	})
}

// Supersede cancels the active task, which is deleted, and the follower runs.
func TestSupersede(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		opts := []asynq.Option{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Supersede)}
		started, ran := make(chan struct{}), make(chan string, 1)
		env.Serve(asynq.Config{}, func(ctx context.Context, task *asynq.Task) error {
			if string(task.Payload()) == "one" {
				close(started)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			ran <- string(task.Payload())
			return nil
		})
		env.AwaitSubscriber()
		first := enqueueDoc(env, "one", opts...)
		testenv.Await(env, started, "the first task")
		second := enqueueDoc(env, "two", opts...)
		if second.ID == first.ID || second.IsRepeated {
			env.T.Errorf("the follower of %q is %+v", first.ID, second)
		}
		if got := testenv.Await(env, ran, "the follower"); got != "two" {
			env.T.Errorf("the payload %q ran", got)
		}
		env.AwaitState(first.ID, "")
		env.AwaitState(second.ID, "")
		env.WantCounts(2, 1)
	})
}

// No two tasks wait with the same key: an active task whose attempt fails is deleted while a later
// one waits, and retried if that has ended.
func TestNoTwoTasksWaitWithTheSameKey(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		opts := []asynq.Option{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Replace)}
		started, fail := make(chan string, 1), make(chan struct{})
		outcomes := make(chan asynq.AttemptEnd, 10)
		reported := make(chan string, 10)
		env.Serve(asynq.Config{
			Concurrency:    2,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, task *asynq.Task, _ error) {
				reported <- string(task.Payload())
			}),
			Observer: &asynq.Observer{AttemptEnded: func(a asynq.AttemptEnd) { outcomes <- a }},
		}, func(_ context.Context, task *asynq.Task) error {
			if payload := string(task.Payload()); payload != "two" {
				started <- payload
				<-fail
				return errors.New("boom")
			}
			return nil
		})
		first := enqueueDoc(env, "one", opts...)
		testenv.Await(env, started, "the first task")
		second := enqueueDoc(env, "two", append(opts, asynq.ProcessIn(time.Hour))...)
		if second.ID == first.ID || second.State != asynq.TaskStateScheduled {
			env.T.Fatalf("the later task is %+v", second)
		}
		fail <- struct{}{}
		env.AwaitState(first.ID, "")
		if a := testenv.Await(env, outcomes, "the outcome"); a.ID != first.ID || a.Outcome != asynq.OutcomeRetried {
			env.T.Errorf("the attempt ended with %+v", a)
		}
		if got := testenv.Await(env, reported, "the error"); got != "one" {
			env.T.Errorf("the error of %q was reported", got)
		}
		env.WantCounts(1, 1)
		wantStored(env, second)
		env.CheckInvariants("while the later task waits")

		if again := enqueueDoc(env, "three", opts...); again.ID != second.ID || !again.IsRepeated {
			env.T.Fatalf("the next call returns %+v, want %q", again, second.ID)
		}
		testenv.Await(env, started, "the later task, with the payload of the next call")
		third := enqueueDoc(env, "two", opts...)
		env.AwaitState(third.ID, "")
		fail <- struct{}{}
		env.AwaitState(second.ID, "retry")
		if again := enqueueDoc(env, "four", opts...); again.ID != second.ID || again.State != asynq.TaskStateRetry {
			env.T.Errorf("the task in retry lost its key: the next call returns %+v", again)
		}
		env.CheckInvariants("at the end")
	})
}

// However many producers debounce a key, one task runs, with the last payload. Each producer makes
// 20 calls, or as many as ASYNQ_DEBOUNCE_CALLS says.
func TestDebounce(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		const producers = 64
		calls := 20
		if n, err := strconv.Atoi(os.Getenv("ASYNQ_DEBOUNCE_CALLS")); err == nil {
			calls = n
		}
		debounce := asynq.Debounce("doc", time.Hour, 2*time.Hour)
		var mu sync.Mutex
		ids := make(map[string]bool)
		call := func(client *asynq.Client, payload string) {
			info, err := client.Enqueue(asynq.NewTask("doc", []byte(payload)), debounce)
			if err != nil {
				env.T.Error(err)
				return
			}
			mu.Lock()
			ids[info.ID] = true
			mu.Unlock()
		}
		var wg sync.WaitGroup
		for p := range producers {
			client := env.NewClient(env.Opt())
			wg.Go(func() {
				for n := range calls {
					call(client, fmt.Sprint(p, "-", n))
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			env.T.Fatalf("the calls return %d IDs, want 1", len(ids))
		}
		const last = "last"
		info := enqueueDoc(env, last, debounce)
		if !ids[info.ID] {
			env.T.Errorf("the last call returns another ID, %q", info.ID)
		}
		if d := time.Until(info.NextProcessAt); info.State != asynq.TaskStateScheduled || d < 50*time.Minute || d > 61*time.Minute {
			env.T.Errorf("the task is %+v", info)
		}
		wantStored(env, info)
		ran := make(chan string, 10)
		env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			ran <- string(task.Payload())
			return nil
		})
		env.NoError(env.Inspector().RunTask("default", info.ID))
		if got := testenv.Await(env, ran, "the task"); got != last {
			env.T.Errorf("the payload %q ran, want the last one, %q", got, last)
		}
		env.AwaitState(info.ID, "")
		if len(ran) > 0 {
			env.T.Errorf("the payload %q ran, too", <-ran)
		}
	})
}

// Concurrent calls share one task, whatever replies are lost.
func TestModesOfManyCallers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		for name, opts := range map[string][]asynq.Option{
			"replace":  {asynq.UniqueKey("replace", time.Hour), asynq.OnDuplicate(asynq.Replace)},
			"keep":     {asynq.UniqueKey("keep", time.Hour), asynq.OnDuplicate(asynq.Keep)},
			"debounce": {asynq.Debounce("debounce", time.Hour, 0)},
			"throttle": {asynq.Throttle("throttle", time.Hour)},
		} {
			p, opt := env.Proxy()
			f := p.SwallowReplies(2, "evalsha", "doc:"+name)
			client := env.NewClient(opt)
			var mu sync.Mutex
			ids := make(map[string]int)
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					info, err := client.Enqueue(asynq.NewTask("doc:"+name, nil), opts...)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						env.T.Error(err)
						return
					}
					ids[info.ID]++
				})
			}
			wg.Wait()
			testenv.Await(env, f.Done(), "the fault")
			if len(ids) != 1 {
				env.T.Errorf("%s: the calls return the IDs %v", name, ids)
			}
		}
		if n := len(env.Keys(env.Queue.TaskPrefix() + "*")); n != 4 {
			env.T.Errorf("there are %d tasks, want 4", n)
		}
	})
}

// A throttle drops calls within its window, or folds them into one task at its end.
func TestThrottle(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		drop := asynq.Throttle("drop", time.Hour)
		first := enqueueDoc(env, "one", drop)
		again := enqueueDoc(env, "two", drop)
		if first.IsRepeated || !again.IsRepeated || again.ID != first.ID || string(again.Payload) != "one" {
			env.T.Errorf("a throttled call returns %+v", again)
		}
		env.NoError(env.Inspector().DeleteTask("default", first.ID))
		if again = enqueueDoc(env, "three", drop); again.ID != first.ID || again.State != 0 || !again.IsRepeated {
			env.T.Errorf("after the first task is gone, a throttled call returns %+v", again)
		}
		fold := []asynq.Option{asynq.Throttle("fold", time.Hour), asynq.OnDuplicate(asynq.Replace)}
		lead := enqueueDoc(env, "four", fold...)
		if lead.State != asynq.TaskStatePending || lead.IsRepeated {
			env.T.Errorf("the first call returns %+v", lead)
		}
		folded := enqueueDoc(env, "five", fold...)
		if d := time.Until(folded.NextProcessAt); folded.ID == lead.ID || folded.IsRepeated || d < 50*time.Minute || d > 61*time.Minute {
			env.T.Errorf("the folded task is %+v", folded)
		}
		if again = enqueueDoc(env, "six", fold...); again.ID != folded.ID || !again.IsRepeated || string(again.Payload) != "six" {
			env.T.Errorf("the third call returns %+v", again)
		}
		wantStored(env, again)
	})
}

// An expired task is deleted before its first attempt, and archived after a failed one.
func TestExpiresIn(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		fresh := enqueueDoc(env, "fresh", asynq.TaskID("fresh"), asynq.ExpiresIn(time.Hour), asynq.Header("h", "1"))
		if d := time.Until(fresh.ExpiresAt); d < 50*time.Minute || d > 61*time.Minute || len(fresh.Headers) != 1 {
			env.T.Errorf("the task is %+v", fresh)
		}
		stored, err := env.Inspector().GetTaskInfo("default", "fresh")
		env.NoError(err)
		if !stored.ExpiresAt.Equal(fresh.ExpiresAt) || len(stored.Headers) != 1 {
			env.T.Errorf("the stored task is %+v", stored)
		}
		enqueueDoc(env, "old", asynq.TaskID("old"), asynq.ExpiresIn(time.Hour), asynq.UniqueKey("old", time.Hour))
		enqueueDoc(env, "failed", asynq.TaskID("failed"), asynq.ExpiresIn(time.Hour))
		expire(env, "old", nil)
		expire(env, "failed", errors.New("boom"))
		var mu sync.Mutex
		ended := make(map[string]asynq.AttemptEnd)
		started := make(map[string]bool)
		var reported []string
		env.Serve(asynq.Config{
			ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, task *asynq.Task, err error) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, task.Type()+": "+err.Error())
			}),
			Observer: &asynq.Observer{
				AttemptStarted: func(a asynq.AttemptStart) { mu.Lock(); started[a.ID] = true; mu.Unlock() },
				AttemptEnded:   func(a asynq.AttemptEnd) { mu.Lock(); ended[a.ID] = a; mu.Unlock() },
			},
		}, func(_ context.Context, task *asynq.Task) error {
			if len(task.Headers()) != 1 || string(task.Payload()) != "fresh" {
				env.T.Errorf("the handler received %q with the headers %v", task.Payload(), task.Headers())
			}
			return nil
		})
		env.AwaitState("fresh", "")
		env.AwaitState("old", "")
		env.AwaitState("failed", "archived")
		if got := env.Message("failed").LastErr; got != "task expired; last error: boom" {
			env.T.Errorf("the archived task has the error %q", got)
		}
		enqueueDoc(env, "new", asynq.TaskID("old"), asynq.UniqueKey("old", time.Hour), asynq.ProcessIn(time.Hour)) // the lock is free
		mu.Lock()
		defer mu.Unlock()
		if a := ended["old"]; a.Outcome != asynq.OutcomeExpired || !errors.Is(a.Err, asynq.ErrTaskExpired) || started["old"] {
			env.T.Errorf("the expired task ended with %+v", a)
		}
		if a := ended["failed"]; a.Outcome != asynq.OutcomeArchived || !errors.Is(a.Err, asynq.ErrTaskExpired) || started["failed"] {
			env.T.Errorf("the archived task ended with %+v", a)
		}
		if len(reported) != 1 || reported[0] != "doc:failed: "+asynq.ErrTaskExpired.Error() {
			env.T.Errorf("ErrorHandler received %q", reported)
		}
		env.WantCounts(3, 1)
	})
}

// expire makes a stored task expire an hour ago, after an attempt with this error.
func expire(env *testenv.Env, id string, failure error) {
	env.T.Helper()
	m := env.Message(id)
	m.SetExpires(time.Now().Add(-time.Hour).Unix())
	if failure != nil {
		m.Retried, m.LastErr, m.LastFailedAt = 1, failure.Error(), time.Now().Unix()
	}
	text, err := m.Encode()
	env.NoError(err)
	env.NoError(env.RDB.HSet(env.Context(), env.Queue.Task(id), "msg", text).Err())
}

// A Receiver returns no expired task either.
func TestExpiresInReceiver(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		enqueueDoc(env, "old", asynq.TaskID("old"), asynq.ExpiresIn(time.Hour))
		expire(env, "old", nil)
		enqueueDoc(env, "fresh", asynq.TaskID("fresh"), asynq.ExpiresIn(time.Hour))
		r := env.Receiver(asynq.ReceiverConfig{})
		leases, err := r.Receive(env.Context(), 1, "default")
		env.NoError(err)
		if len(leases) != 1 || leases[0].ID() != "fresh" || leases[0].Info().ExpiresAt.IsZero() {
			env.T.Fatalf("received %v", leases)
		}
		env.NoError(leases[0].Complete(env.Context(), nil))
		env.AwaitState("old", "")
	})
}

// Schedules and aggregations do not depend on earlier calls.
func TestModesAreRejected(t *testing.T) {
	t.Parallel()
	env := newMiniredis(t)
	scheduler := asynq.NewScheduler(env.Opt(), nil)
	for _, opt := range []asynq.Option{asynq.Debounce("k", time.Second, 0), asynq.Throttle("k", time.Second)} {
		_, err := scheduler.Register("@daily", asynq.NewTask("test", nil), opt)
		if err == nil || !strings.Contains(err.Error(), "a scheduled task cannot have Debounce, Throttle") {
			t.Errorf("a scheduled task with %v: error %v", opt, err)
		}
	}
	if _, err := scheduler.Register("@daily", asynq.NewTask("test", nil), asynq.UniqueKey("k", time.Hour), asynq.ExpiresIn(time.Hour)); err != nil {
		t.Error(err)
	}
	env.Enqueue("a", asynq.Group("g"))
	env.Enqueue("b", asynq.Group("g"))
	env.Serve(inTwos(asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task {
		return asynq.NewTask("sum", nil, asynq.Unique(time.Hour), asynq.OnDuplicate(asynq.Replace))
	})), asynq.NotFound)
	env.Eventually(func() bool { return env.Log.Count("OnDuplicate") > 0 }, "the log to say why the group is not aggregated")
	for _, id := range []string{"a", "b"} {
		env.AwaitState(id, "aggregating")
	}
}
