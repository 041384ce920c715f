package asynq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

// remains is the keys of the default queue, but for the statistics, and for what goes by itself: only locks must go earlier.
func (s *site) remains() []string {
	return slices.DeleteFunc(s.keys("asynq:{default}:*"), func(key string) bool {
		if key == s.queue.Processed() || key == s.queue.Failed() {
			return true
		}
		return !strings.Contains(key, ":unique:") && s.redis.TTL(context.Background(), key).Val() != -1
	})
}

func TestGuarantee15Cleanup(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *asynq.Task) error { return nil }
	t.Run("tasks that end leave nothing", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueueMany(50, asynq.Unique(time.Hour))
			s.enqueue("delayed", asynq.Unique(time.Hour), asynq.ProcessIn(time.Millisecond))
			s.enqueue("kept", asynq.Unique(time.Hour), asynq.Retention(time.Millisecond))
			srv := s.serve(asynq.Config{JanitorInterval: 10 * time.Millisecond}, func(_ context.Context, task *asynq.Task) error {
				_, err := task.ResultWriter().Write([]byte("result"))
				return err
			})
			s.awaitEmpty()
			srv.Shutdown()
			if left := s.remains(); len(left) > 0 {
				s.t.Errorf("they left %v", left)
			}
		})
	})
	t.Run("retention in batches", func(t *testing.T) {
		everywhere(t, func(s *site) {
			const n = 1500
			s.plant(n, wire.StateCompleted, s.queue.Completed(), time.Now().Add(-time.Minute))
			s.enqueue("stays", asynq.Retention(time.Hour))
			s.serve(asynq.Config{JanitorBatchSize: 100, JanitorInterval: time.Hour}, nothing)
			s.eventually(func() bool { return len(s.keys(s.queue.TaskPrefix()+"old*")) == 0 }, "%d tasks to go at one interval", n)
			s.awaitState("stays", "completed")
			want := []string{s.queue.Completed(), s.queue.Task("stays")}
			if left := s.remains(); !slices.Equal(left, want) {
				s.t.Errorf("there is %v, want %v", left, want)
			}
		})
	})
	t.Run("the archive by age", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.plant(250, wire.StateArchived, s.queue.Archived(), time.Now().Add(-91*24*time.Hour))
			s.serve(asynq.Config{}, nothing)
			s.awaitEmpty()
			s.eventually(func() bool { return len(s.remains()) == 0 }, "nothing to be left")
		})
	})
	t.Run("the archive by size", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.plant(10_100, wire.StateArchived, s.queue.Archived(), time.Now().Add(-time.Hour))
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			s.enqueue("new", asynq.Unique(time.Hour))
			s.awaitState("new", "archived")
			s.eventually(func() bool { return s.redis.ZCard(context.Background(), s.queue.Archived()).Val() <= 10_000 }, "the archive to be trimmed")
			if s.state("new") != "archived" {
				s.t.Error("the newest task is gone")
			}
			if n, want := len(s.keys(s.queue.TaskPrefix()+"*")), s.redis.ZCard(context.Background(), s.queue.Archived()).Val(); int64(n) != want {
				s.t.Errorf("%d tasks are in the archive, and %d exist", want, n)
			}
		})
	})
	t.Run("bulk deletes", func(t *testing.T) {
		everywhere(t, func(s *site) {
			finish := s.everyState()
			s.enqueueMany(600, asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
			finish()
			s.awaitState("active", "")
			i := s.inspector()
			for _, deleteAll := range []func(string) (int, error){
				i.DeleteAllPendingTasks, i.DeleteAllScheduledTasks, i.DeleteAllRetryTasks, i.DeleteAllArchivedTasks, i.DeleteAllCompletedTasks,
			} {
				if n, err := deleteAll("default"); n == 0 || err != nil {
					s.t.Errorf("%d tasks, error %v", n, err)
				}
			}
			if n, err := i.DeleteAllAggregatingTasks("default", "g"); n != 1 || err != nil {
				s.t.Errorf("%d tasks, error %v", n, err)
			}
			// The task in aggregation is not theirs.
			want := []string{s.queue.AggregationSets(), s.queue.AggregationSet("g", "u"), s.queue.Task("staged"), s.queue.Unique("staged", nil)}
			if left := s.remains(); !slices.Equal(left, want) {
				s.t.Errorf("there is %v, want %v", left, want)
			}
		})
	})
	t.Run("a queue that is removed", func(t *testing.T) {
		everywhere(t, func(s *site) {
			finish := s.everyState()
			s.enqueueMany(600, asynq.Unique(time.Hour))
			s.redis.Set(context.Background(), s.queue.Unique("left by another library", nil), "long gone", time.Hour)
			finish()
			s.awaitState("active", "")
			i := s.inspector()
			if err := i.PauseQueue("default"); err != nil {
				s.t.Error(err)
			}
			if err := i.DeleteQueue("default", true); err != nil {
				s.t.Error(err)
			}
			if left := s.keys("asynq:{default}:*"); len(left) > 0 {
				s.t.Errorf("it left %v", left)
			}
			if s.redis.SIsMember(context.Background(), "asynq:queues", "default").Val() {
				s.t.Error("it is still known")
			}
		})
	})
	t.Run("a server that ended", func(t *testing.T) {
		everywhere(t, func(s *site) {
			srv := s.serve(asynq.Config{}, nothing)
			s.eventually(func() bool { return len(s.keys("asynq:servers:*")) == 1 }, "the server to be seen")
			srv.Shutdown()
			for _, key := range s.keys("*") {
				if key != "asynq:queues" && s.redis.TTL(context.Background(), key).Val() < 0 {
					s.t.Errorf("it left %s, without a TTL", key)
				}
			}
		})
	})
}

// plant makes tasks old0, old1, …, each with a lock, in a state that takes long to come to.
func (s *site) plant(n int, state wire.State, collection string, at time.Time) {
	s.t.Helper()
	ctx := context.Background()
	for start := 0; start < n; start += 1000 {
		_, err := s.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := start; i < min(start+1000, n); i++ {
				id := fmt.Sprint("old", i)
				m := wire.TaskMessage{ID: id, Type: id, Queue: "default", UniqueKey: s.queue.Unique(id, nil)}
				b, err := m.Encode()
				if err != nil {
					return err
				}
				pipe.HSet(ctx, s.queue.Task(id), wire.FieldMessage, b, wire.FieldState, state.String(), wire.FieldUniqueKey, m.UniqueKey)
				if i%10 == 0 {
					pipe.Set(ctx, m.UniqueKey, id, time.Hour)
				}
				pipe.ZAdd(ctx, collection, redis.Z{Score: float64(at.Unix() - int64(n-i)/100), Member: id})
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}
