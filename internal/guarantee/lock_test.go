package guarantee_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

func TestGuarantee08UniqueLocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("acquired with the task", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.Unique(time.Hour))
			if got := env.LockHolder("t"); got != "t" {
				env.T.Errorf("the lock is held by %q", got)
			}
			before := env.Keys("*")
			for range 3 {
				if _, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
					env.T.Errorf("second task: %v, want ErrDuplicateTask", err)
				}
			}
			if after := env.Keys("*"); len(after) != len(before) {
				env.T.Errorf("keys after a rejected task: %v, before: %v", after, before)
			}
			env.Enqueue("u", asynq.Unique(time.Hour)) // another type
			if _, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour), asynq.Queue("other")); err != nil {
				env.T.Errorf("same task in another queue: %v", err)
			}
		})
	})
	t.Run("not acquired on a task ID conflict", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t")
			_, err := env.Client.Enqueue(asynq.NewTask("other", nil), asynq.TaskID("t"), asynq.Unique(time.Hour))
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				env.T.Errorf("enqueue with an existing ID: %v, want ErrTaskIDConflict", err)
			}
			if got := env.LockHolder("other"); got != "" {
				env.T.Errorf("after the conflict, the lock is held by %q", got)
			}
		})
	})
	t.Run("kept until the task succeeds", func(t *testing.T) { testenv.Each(t, lockThroughRetry) })
	t.Run("released when the task is revoked", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.Unique(time.Hour))
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
			env.AwaitState("t", "")
			if got := env.LockHolder("t"); got != "" {
				env.T.Errorf("the lock is still held by %q, which was revoked", got)
			}
		})
	})
	t.Run("released when the archive is trimmed", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.Unique(time.Hour))
			srv := env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			env.AwaitState("t", "archived")
			srv.Shutdown()
			if got := env.LockHolder("t"); got != "t" {
				env.T.Errorf("the lock of an archived task is held by %q", got)
			}
			env.RDB.ZAdd(ctx, env.Queue.Archived(), redis.Z{Score: float64(time.Now().Add(-91 * 24 * time.Hour).Unix()), Member: "t"})
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
			env.AwaitState("t", "")
			if got := env.LockHolder("t"); got != "" {
				env.T.Errorf("the lock is still held by %q, which was trimmed", got)
			}
		})
	})
	t.Run("released when the task is deleted", func(t *testing.T) { testenv.Each(t, lockOfDeleted) })
	t.Run("not released by a task that has lost it", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			started, proceed := make(chan struct{}), make(chan struct{})
			env.Enqueue("t", asynq.Unique(time.Hour))
			env.Serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
				close(started)
				<-proceed
				return nil
			})
			testenv.Await(env, started, "the task to start")
			env.RDB.Del(ctx, env.Queue.Unique("t", nil)) // the lock expires
			if _, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("second"), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)); err != nil {
				env.T.Fatal(err)
			}
			close(proceed)
			env.AwaitState("t", "")
			if got := env.LockHolder("t"); got != "second" {
				env.T.Errorf("the lock is held by %q, want the second task", got)
			}
		})
	})
	t.Run("taken over if the holder does not exist", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.RDB.Set(ctx, env.Queue.Unique("t", nil), "missing", time.Hour) // as the reference library may leave it
			env.Enqueue("t", asynq.Unique(time.Hour))
			if got := env.LockHolder("t"); got != "t" {
				env.T.Errorf("the lock is held by %q", got)
			}
		})
	})
	t.Run("its TTL starts when the task is due", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.Enqueue("t", asynq.ProcessIn(time.Hour), asynq.Unique(time.Minute))
			if ttl := env.RDB.TTL(ctx, env.Queue.Unique("t", nil)).Val(); ttl < 60*time.Minute || ttl > 61*time.Minute+time.Second {
				env.T.Errorf("the TTL is %v, want 61 minutes", ttl)
			}
		})
	})
}

// lockOfDeleted deletes tasks in each state.
func lockOfDeleted(env *testenv.Env) {
	ctx, i := context.Background(), env.Inspector()
	env.EnqueueEveryState()
	later := []asynq.Option{asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)}
	for _, id := range []string{"taken over", "one", "many1", "many2"} {
		env.Enqueue(id, later...)
	}
	env.RDB.Set(ctx, env.Queue.Unique("taken over", nil), "many1", time.Hour) // the lock expired, and another task acquired it
	for _, id := range []string{"one", "taken over", "pending", "scheduled", "retry", "archived", "aggregating"} {
		if err := i.DeleteTask("default", id); err != nil {
			env.T.Errorf("%s: %v", id, err)
		}
		want := ""
		if id == "taken over" {
			want = "many1"
		}
		if got := env.LockHolder(id); got != want {
			env.T.Errorf("the lock of %s is held by %q, want %q", id, got, want)
		}
	}
	env.RDB.Del(ctx, env.Queue.Unique("taken over", nil))
	if _, err := i.DeleteAllScheduledTasks("default"); err != nil {
		env.T.Error(err)
	}
	for _, id := range []string{"many1", "many2"} {
		if got := env.LockHolder(id); got != "" {
			env.T.Errorf("the lock of %s is held by %q after all these tasks were deleted", id, got)
		}
	}
}

func lockThroughRetry(env *testenv.Env) {
	started, outcomes := make(chan struct{}, 3), make(chan error)
	env.Enqueue("t", asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	env.Serve(asynq.Config{
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	}, func(context.Context, *asynq.Task) error {
		started <- struct{}{}
		return <-outcomes
	})
	for _, outcome := range []error{errors.New("failed"), asynq.Snooze(0), nil} {
		testenv.Await(env, started, "the task to start")
		if got := env.LockHolder("t"); got != "t" {
			env.T.Errorf("while the task runs, the lock is held by %q", got)
		}
		outcomes <- outcome
	}
	env.AwaitState("t", "completed")
	if got := env.LockHolder("t"); got != "" {
		env.T.Errorf("after the task succeeded, the lock is held by %q", got)
	}
	if _, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)); err != nil {
		env.T.Errorf("next task: %v", err)
	}
}
