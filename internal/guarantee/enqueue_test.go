package guarantee_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestGuarantee04LostReplyIsNoConflict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts []asynq.Option
		want error // error when the call is repeated
	}{
		{name: "task ID", opts: []asynq.Option{asynq.TaskID("chosen")}, want: asynq.ErrTaskIDConflict},
		{name: "unique", opts: []asynq.Option{asynq.Unique(time.Minute)}, want: asynq.ErrDuplicateTask},
		{name: "delayed and unique", opts: []asynq.Option{asynq.ProcessIn(time.Hour), asynq.Unique(time.Minute)}, want: asynq.ErrDuplicateTask},
		{name: "task ID and unique", opts: []asynq.Option{asynq.TaskID("chosen"), asynq.Unique(time.Minute)}},
		{name: "grouped with a task ID", opts: []asynq.Option{asynq.Group("g"), asynq.TaskID("chosen")}, want: asynq.ErrTaskIDConflict},
		{name: "neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				p, opt := env.Proxy()
				client := env.NewClient(opt)
				f := p.SwallowReplies(2, "evalsha", "the payload")
				task := asynq.NewTask("test", []byte("the payload"), tc.opts...)
				info, err := client.Enqueue(task)
				if err != nil {
					env.T.Fatalf("enqueue with two lost replies: %v", err)
				}
				testenv.Await(env, f.Done(), "the fault")
				if env.State(info.ID) != info.State.String() {
					env.T.Errorf("the task is in state %q, want %v", env.State(info.ID), info.State)
				}
				if n := len(env.Keys(env.Queue.TaskPrefix() + "*")); n != 1 {
					env.T.Errorf("there are %d tasks, want 1", n)
				}
				if tc.want == nil {
					return
				}
				if _, err := client.Enqueue(task); !errors.Is(err, tc.want) {
					env.T.Errorf("second enqueue: %v, want %v", err, tc.want)
				}
			})
		})
	}
	t.Run("a batch", func(t *testing.T) { testenv.Each(t, batchWithLostReplies) })
	t.Run("the task runs before the call is repeated", func(t *testing.T) { testenv.Each(t, ranBeforeRepeat) })
	t.Run("no reply means that the outcome is unknown", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			p, opt := env.Proxy()
			client := env.NewClient(opt)
			if err := client.Ping(); err != nil {
				env.T.Fatal(err)
			}
			p.Blackhole()
			defer p.Resume()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := client.EnqueueContext(ctx, asynq.NewTask("test", nil))
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may or may not be enqueued") {
				env.T.Errorf("without a reply: %v", err)
			}
			if _, err = client.EnqueueContext(ctx, asynq.NewTask("test", nil)); !errors.Is(err, context.DeadlineExceeded) {
				env.T.Errorf("with a canceled context: %v", err)
			}
		})
	})
}

func batchWithLostReplies(env *testenv.Env) {
	p, opt := env.Proxy()
	client := env.NewClient(opt)
	env.Enqueue("t7")
	env.Enqueue("holder", asynq.Unique(time.Minute))
	tasks := make([]*asynq.Task, 0, 1001)
	for i := range 1000 {
		task := asynq.NewTask("test", []byte(fmt.Sprint("payload", i)), asynq.TaskID(fmt.Sprint("t", i)), asynq.Unique(time.Minute))
		tasks = append(tasks, task)
	}
	tasks = append(tasks, asynq.NewTask("holder", nil, asynq.Unique(time.Minute)))
	f := p.SwallowReplies(2, "evalsha", "payload999")
	for i, r := range client.BatchEnqueueContext(context.Background(), tasks) {
		switch want := map[int]error{7: asynq.ErrTaskIDConflict, 1000: asynq.ErrDuplicateTask}[i]; {
		case !errors.Is(r.Err, want):
			env.T.Errorf("task %d of the batch: %v, want %v", i, r.Err, want)
		case want == nil && env.State(r.TaskInfo.ID) != "pending":
			env.T.Errorf("task %d of the batch is in state %q", i, env.State(r.TaskInfo.ID))
		}
	}
	testenv.Await(env, f.Done(), "the fault")
	if n := len(env.Keys(env.Queue.TaskPrefix() + "*")); n != 1001 {
		env.T.Errorf("there are %d tasks, want 1001", n)
	}
}

// ranBeforeRepeat lets a server fetch a task before the client repeats the call that enqueued it.
func ranBeforeRepeat(env *testenv.Env) {
	p, opt := env.Proxy()
	client := env.NewClient(opt)
	started, proceed := make(chan struct{}, 10), make(chan struct{})
	env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error {
		started <- struct{}{}
		<-proceed
		return nil
	})
	f := p.SwallowReplies(1, "evalsha", "chosen")
	p.Delay(20 * time.Millisecond)
	if _, err := client.Enqueue(asynq.NewTask("chosen", nil), asynq.TaskID("chosen"), asynq.Unique(time.Minute)); err != nil {
		env.T.Errorf("enqueue with a lost reply: %v", err)
	}
	testenv.Await(env, f.Done(), "the fault")
	testenv.Await(env, started, "the task to start")
	close(proceed)
	env.AwaitState("chosen", "")
	if len(started) > 0 {
		env.T.Error("the task ran twice")
	}
}

func TestGuarantee17FullRedis(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		env := newMiniredis(t)
		p, opt := env.Proxy()
		client := env.NewClient(opt)
		if _, err := client.Enqueue(asynq.NewTask("test", nil)); err != nil {
			env.T.Fatal(err)
		}
		p.Answer(1, "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "evalsha", "refused")
		wantRefused(env, client, "refused")
		if env.State("refused") != "" {
			env.T.Error("a refused task exists")
		}
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		env, _ := testenv.OnServer(t, "--maxmemory-policy", "noeviction")
		drainFullRedis(env)
	})
}

// newMiniredis returns an environment on miniredis.
func newMiniredis(t *testing.T) *testenv.Env {
	t.Helper()
	r := redistest.Mini(t)
	return testenv.New(t, r, r.Client())
}

func wantRefused(env *testenv.Env, client *asynq.Client, id string) {
	env.T.Helper()
	if _, err := client.Enqueue(asynq.NewTask(id, nil), asynq.TaskID(id)); !errors.Is(err, asynq.ErrRedisFull) {
		env.T.Errorf("enqueue to a full Redis: %v, want ErrRedisFull", err)
	}
}

// drainFullRedis processes tasks with all outcomes while Redis uses more than its maximum memory.
func drainFullRedis(env *testenv.Env) {
	ctx := context.Background()
	env.EnqueueMany(100)
	for i := range 20 {
		env.Enqueue(fmt.Sprint("unique", i), asynq.Unique(time.Hour))
		env.Enqueue(fmt.Sprint("completed", i), asynq.Retention(time.Hour))
		env.Enqueue(fmt.Sprint("retried", i))
		env.Enqueue(fmt.Sprint("archived", i))
		env.Enqueue(fmt.Sprint("delayed", i), asynq.ProcessIn(time.Second))
	}
	if err := env.RDB.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		env.T.Fatal(err)
	}
	wantRefused(env, env.Client, "refused")
	batch := []*asynq.Task{asynq.NewTask("a", nil), asynq.NewTask("b", nil, asynq.Unique(time.Hour)), asynq.NewTask("c", nil, asynq.ProcessIn(time.Hour))}
	for i, r := range env.Client.BatchEnqueueContext(ctx, batch) {
		if !errors.Is(r.Err, asynq.ErrRedisFull) {
			env.T.Errorf("task %d of a batch: %v, want ErrRedisFull", i, r.Err)
		}
	}
	var ran testenv.Tally
	srv := env.Serve(asynq.Config{
		Concurrency: 10, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	}, func(_ context.Context, task *asynq.Task) error {
		n := ran.Add(task.Type())
		switch {
		case strings.HasPrefix(task.Type(), "retried") && n == 1:
			return errors.New("failed")
		case strings.HasPrefix(task.Type(), "archived"):
			return asynq.SkipRetry
		}
		return nil
	})
	env.Eventually(func() bool {
		return env.RDB.ZCard(ctx, env.Queue.Completed()).Val() == 20 && env.RDB.ZCard(ctx, env.Queue.Archived()).Val() == 20 &&
			len(env.Keys(env.Queue.TaskPrefix()+"*")) == 40
	}, "the full Redis to be drained")
	srv.Shutdown()
	if n := len(ran.Order()); n != 220 {
		env.T.Errorf("200 tasks, 20 of which failed once, ran %d times, want 220", n)
	}
	env.WantCounts(220, 40)
	env.CheckInvariants("in a full Redis")
	wantRefused(env, env.Client, "refused")
	if err := env.RDB.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		env.T.Fatal(err)
	}
	env.Enqueue("refused")
}
