package guarantee_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// remainingKeys returns the keys of the default queue, without the statistics and without keys that
// expire. Locks are included although they expire: they must be released earlier.
func remainingKeys(env *testenv.Env) []string {
	return slices.DeleteFunc(env.Keys("asynq:{default}:*"), func(key string) bool {
		if key == env.Queue.Processed() || key == env.Queue.Failed() {
			return true
		}
		return !strings.Contains(key, ":unique:") && env.RDB.TTL(context.Background(), key).Val() != -1
	})
}

func TestGuarantee15Cleanup(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *asynq.Task) error { return nil }
	t.Run("finished tasks leave nothing", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			env.EnqueueMany(50, asynq.Unique(time.Hour))
			env.Enqueue("delayed", asynq.Unique(time.Hour), asynq.ProcessIn(time.Millisecond))
			env.Enqueue("kept", asynq.Unique(time.Hour), asynq.Retention(time.Millisecond))
			srv := env.Serve(asynq.Config{JanitorInterval: 10 * time.Millisecond}, func(_ context.Context, task *asynq.Task) error {
				_, err := task.ResultWriter().Write([]byte("result"))
				return err
			})
			env.AwaitEmpty()
			srv.Shutdown()
			if left := remainingKeys(env); len(left) > 0 {
				env.T.Errorf("keys left: %v", left)
			}
		})
	})
	t.Run("retention in batches", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			const n = 1500
			plantTasks(env, n, wire.StateCompleted, env.Queue.Completed(), time.Now().Add(-time.Minute))
			env.Enqueue("stays", asynq.Retention(time.Hour))
			env.Serve(asynq.Config{JanitorBatchSize: 100, JanitorInterval: time.Hour}, nothing)
			env.Eventually(func() bool { return len(env.Keys(env.Queue.TaskPrefix()+"old*")) == 0 }, "%d tasks to be deleted in one run", n)
			env.AwaitState("stays", "completed")
			want := []string{env.Queue.Completed(), env.Queue.Task("stays")}
			if left := remainingKeys(env); !slices.Equal(left, want) {
				env.T.Errorf("keys %v, want %v", left, want)
			}
		})
	})
	t.Run("archive trimmed by age", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			plantTasks(env, 250, wire.StateArchived, env.Queue.Archived(), time.Now().Add(-91*24*time.Hour))
			env.Serve(asynq.Config{}, nothing)
			env.AwaitEmpty()
			env.Eventually(func() bool { return len(remainingKeys(env)) == 0 }, "all keys to be deleted")
		})
	})
	t.Run("archive trimmed by size", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			plantTasks(env, 10_100, wire.StateArchived, env.Queue.Archived(), time.Now().Add(-time.Hour))
			env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			env.Enqueue("new", asynq.Unique(time.Hour))
			env.AwaitState("new", "archived")
			env.Eventually(func() bool { return env.RDB.ZCard(context.Background(), env.Queue.Archived()).Val() <= 10_000 }, "the archive to be trimmed")
			if env.State("new") != "archived" {
				env.T.Error("the newest task is gone")
			}
			if n, want := len(env.Keys(env.Queue.TaskPrefix()+"*")), env.RDB.ZCard(context.Background(), env.Queue.Archived()).Val(); int64(n) != want {
				env.T.Errorf("%d tasks in the archive, but %d exist", want, n)
			}
		})
	})
	t.Run("bulk deletes", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			finish := env.EnqueueEveryState()
			env.EnqueueMany(600, asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
			finish()
			env.AwaitState("active", "")
			i := env.Inspector()
			for _, deleteAll := range []func(string) (int, error){
				i.DeleteAllPendingTasks, i.DeleteAllScheduledTasks, i.DeleteAllRetryTasks, i.DeleteAllArchivedTasks, i.DeleteAllCompletedTasks,
			} {
				if n, err := deleteAll("default"); n == 0 || err != nil {
					env.T.Errorf("deleted %d tasks, error %v", n, err)
				}
			}
			if n, err := i.DeleteAllAggregatingTasks("default", "g"); n != 1 || err != nil {
				env.T.Errorf("deleted %d tasks, error %v", n, err)
			}
			// Bulk deletes do not touch the task that is being aggregated.
			want := []string{env.Queue.AggregationSets(), env.Queue.AggregationSet("g", "u"), env.Queue.Task("staged"), env.Queue.Unique("staged", nil)}
			if left := remainingKeys(env); !slices.Equal(left, want) {
				env.T.Errorf("keys %v, want %v", left, want)
			}
		})
	})
	t.Run("removed queue", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			finish := env.EnqueueEveryState()
			env.EnqueueMany(600, asynq.Unique(time.Hour))
			env.RDB.Set(context.Background(), env.Queue.Unique("of another library", nil), "missing", time.Hour)
			finish()
			env.AwaitState("active", "")
			i := env.Inspector()
			if err := i.PauseQueue("default"); err != nil {
				env.T.Error(err)
			}
			if err := i.DeleteQueue("default", true); err != nil {
				env.T.Error(err)
			}
			if left := env.Keys("asynq:{default}:*"); len(left) > 0 {
				env.T.Errorf("keys left: %v", left)
			}
			if env.RDB.SIsMember(context.Background(), "asynq:queues", "default").Val() {
				env.T.Error("the queue is still listed")
			}
		})
	})
	t.Run("stopped server", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			srv := env.Serve(asynq.Config{}, nothing)
			env.Eventually(func() bool { return len(env.Keys("asynq:servers:{*}")) == 1 }, "the server to be listed")
			srv.Shutdown()
			for _, key := range env.Keys("*") {
				if key != "asynq:queues" && env.RDB.TTL(context.Background(), key).Val() < 0 {
					env.T.Errorf("key %s has no TTL", key)
				}
			}
		})
	})
}

// plantTasks writes n tasks old0, old1, … to a collection, the first of them older than at by n/100
// seconds. Every tenth task holds its lock.
func plantTasks(env *testenv.Env, n int, state wire.State, collection string, at time.Time) {
	env.T.Helper()
	ctx := context.Background()
	for start := 0; start < n; start += 1000 {
		_, err := env.RDB.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := start; i < min(start+1000, n); i++ {
				id := fmt.Sprint("old", i)
				m := wire.TaskMessage{ID: id, Type: id, Queue: "default", UniqueKey: env.Queue.Unique(id, nil)}
				b, err := m.Encode()
				if err != nil {
					return err
				}
				pipe.HSet(ctx, env.Queue.Task(id), wire.FieldMessage, b, wire.FieldState, state.String(), wire.FieldUniqueKey, m.UniqueKey)
				if i%10 == 0 {
					pipe.Set(ctx, m.UniqueKey, id, time.Hour)
				}
				pipe.ZAdd(ctx, collection, redis.Z{Score: float64(at.Unix() - int64(n-i)/100), Member: id})
			}
			return nil
		})
		if err != nil {
			env.T.Fatal(err)
		}
	}
}
