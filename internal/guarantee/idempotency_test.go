package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

const onceFor = time.Hour

// A repeated call returns the first task in its current state, and its ID once it is gone.
func TestIdempotencyKey(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		client := env.NewClient(env.Opt())
		enqueue := func(payload string, opts ...asynq.Option) *asynq.TaskInfo {
			env.T.Helper()
			info, err := client.Enqueue(asynq.NewTask("order", []byte(payload)), append(opts, asynq.IdempotencyKey("order-7", onceFor))...)
			if err != nil {
				env.T.Fatal(err)
			}
			return info
		}
		first := enqueue("first", asynq.Retention(time.Hour), asynq.ProcessIn(time.Hour))
		again := enqueue("second")
		if again.ID != first.ID || string(again.Payload) != "first" || again.State != asynq.TaskStateScheduled || first.IsRepeated || !again.IsRepeated {
			env.T.Errorf("the second call returns %+v, the first %+v", again, first)
		}
		if !again.NextProcessAt.Equal(first.NextProcessAt.Truncate(time.Second).Add(time.Second)) {
			env.T.Errorf("the task is due at %v, and the second call says %v", first.NextProcessAt, again.NextProcessAt)
		}
		env.NoError(env.Inspector().RunTask("default", first.ID))
		env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			_, err := task.ResultWriter().Write([]byte("shipped"))
			return err
		})
		env.AwaitState(first.ID, "completed")
		if again = enqueue("third"); again.ID != first.ID || again.State != asynq.TaskStateCompleted || string(again.Result) != "shipped" {
			env.T.Errorf("after it has run, a call returns %+v", again)
		}
		env.NoError(env.Inspector().DeleteTask("default", first.ID))
		if again = enqueue("fourth"); again.ID != first.ID || again.Queue != "default" || again.State != 0 || !again.IsRepeated {
			env.T.Errorf("after it was deleted, a call returns %+v", again)
		}
		if other := enqueue("other queue", asynq.Queue("low")); other.ID == first.ID {
			env.T.Error("two queues share a key")
		}
		env.CheckInvariants("at the end")
	})
}

// However many callers use a key at once, and whatever replies are lost, one task is created.
func TestIdempotencyKeyOfManyCallers(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var wg sync.WaitGroup
		ids := make([]string, 64)
		for i := range ids {
			client := env.NewClient(env.Opt())
			wg.Go(func() {
				info, err := client.Enqueue(asynq.NewTask("test", nil), asynq.IdempotencyKey("key", onceFor))
				if err != nil {
					env.T.Error(err)
					return
				}
				ids[i] = info.ID
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				env.T.Fatalf("the callers got the IDs %q", ids)
			}
		}
		p, opt := env.Proxy()
		f := p.SwallowReplies(2, "evalsha", "the payload")
		info, err := env.NewClient(opt).Enqueue(asynq.NewTask("test", []byte("the payload")), asynq.IdempotencyKey("lost", onceFor))
		env.NoError(err)
		testenv.Await(env, f.Done(), "the fault")
		if info.IsRepeated || info.State != asynq.TaskStatePending || env.State(info.ID) != "pending" {
			env.T.Errorf("after lost replies: %+v", info)
		}
		if n := len(env.Keys(env.Queue.TaskPrefix() + "*")); n != 2 {
			env.T.Errorf("there are %d tasks, want 2", n)
		}
	})
}

// Tasks of a batch share keys with each other and with earlier tasks.
func TestIdempotencyKeyInBatch(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		// After a timeout, a repeated call would find key1 in use by a later task of the batch,
		// before it finds the conflict.
		opt := env.Opt()
		opt.ReadTimeout = time.Minute
		client := env.NewClient(opt)
		early := env.Enqueue("early", asynq.IdempotencyKey("key0", onceFor))
		env.Enqueue("taken")
		tasks := make([]*asynq.Task, 2500)
		for i := range tasks {
			tasks[i] = asynq.NewTask("test", nil, asynq.IdempotencyKey(fmt.Sprint("key", i%1000), onceFor))
		}
		tasks[1] = asynq.NewTask("test", nil, asynq.TaskID("taken"), asynq.IdempotencyKey("key1", onceFor))
		tasks[2] = asynq.NewTask("plain", nil)
		results := client.BatchEnqueueContext(context.Background(), tasks)
		env.ErrorIs(results[1].Err, asynq.ErrTaskIDConflict)
		firstIDs := map[string]string{"key0": early.ID}
		for i, r := range results {
			if i == 1 {
				continue
			}
			key := fmt.Sprint("key", i%1000)
			if r.Err != nil || r.TaskInfo.State != asynq.TaskStatePending {
				env.T.Fatalf("task %d: %+v, error %v", i, r.TaskInfo, r.Err)
			}
			if id := firstIDs[key]; i != 2 && id != "" && id != r.TaskInfo.ID {
				env.T.Errorf("task %d has the ID %q, and the first one with its key %q", i, r.TaskInfo.ID, id)
			}
			if i != 2 {
				firstIDs[key] = r.TaskInfo.ID
			}
		}
		if n := len(env.Keys(env.Queue.TaskPrefix() + "*")); n != 1002 { // early, taken, plain and 999 more
			env.T.Errorf("there are %d tasks, want 1002", n)
		}
	})
}

// If the first task cannot be read, the error names it, and the call may be repeated.
func TestIdempotencyKeyWhenReadingFails(t *testing.T) {
	t.Parallel()
	env := newMiniredis(t)
	first := env.Enqueue("test", asynq.IdempotencyKey("key", onceFor))
	p, opt := env.Proxy()
	opt.Params = "max_retries=-1"
	client := env.NewClient(opt)
	again := func(ctx context.Context) (*asynq.TaskInfo, error) {
		return client.EnqueueContext(ctx, asynq.NewTask("test", nil), asynq.IdempotencyKey("key", onceFor))
	}
	read := env.Queue.Task(first.ID) // in the command that reads the task
	p.Answer(1, "-ERR broken\r\n", read)
	if _, err := again(context.Background()); err == nil || !strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the first task cannot be read: error %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	f := p.Answer(1, "", read)
	go func() {
		<-f.Done()
		cancel(context.DeadlineExceeded)
	}()
	if _, err := again(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), first.ID) {
		t.Errorf("ctx ends while the first task is read: error %v", err)
	}
	p.Cut()
	if info, err := again(context.Background()); err != nil || info.ID != first.ID {
		t.Errorf("the call after it returns %+v, error %v", info, err)
	}
}

// A schedule would create only its first task, and a group is aggregated once without a key.
func TestIdempotencyKeyIsRejected(t *testing.T) {
	t.Parallel()
	env := newMiniredis(t)
	scheduler := asynq.NewScheduler(env.Opt(), nil)
	_, err := scheduler.Register("@daily", asynq.NewTask("test", nil), asynq.IdempotencyKey("key", onceFor))
	if err == nil || !strings.Contains(err.Error(), "IdempotencyKey") {
		t.Errorf("a scheduled task with a key: error %v", err)
	}
	env.Enqueue("a", asynq.Group("g"))
	env.Enqueue("b", asynq.Group("g"))
	env.Serve(inTwos(asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task {
		return asynq.NewTask("sum", nil, asynq.IdempotencyKey("key", onceFor))
	})), asynq.NotFound)
	env.Eventually(func() bool { return env.Log.Count("IdempotencyKey") > 0 }, "the log to say why the group is not aggregated")
	for _, id := range []string{"a", "b"} {
		env.AwaitState(id, "aggregating")
	}
}
