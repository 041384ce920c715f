package asynq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// holder is the task that holds the lock of tasks of a type without payload, "" if none does.
func (s *site) holder(typename string) string {
	return s.redis.Get(context.Background(), s.queue.Unique(typename, nil)).Val()
}

func TestGuarantee08UniqueLocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("taken with the task", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.Unique(time.Hour))
			if got := s.holder("t"); got != "t" {
				s.t.Errorf("the lock is held by %q", got)
			}
			before := s.keys("*")
			for range 3 {
				if _, err := s.client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
					s.t.Errorf("a second one: %v, want ErrDuplicateTask", err)
				}
			}
			if after := s.keys("*"); len(after) != len(before) {
				s.t.Errorf("a refused task left something behind: %v, before %v", after, before)
			}
			s.enqueue("u", asynq.Unique(time.Hour)) // another type
			if _, err := s.client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour), asynq.Queue("other")); err != nil {
				s.t.Errorf("in another queue: %v", err)
			}
		})
	})
	t.Run("not taken by a task ID conflict", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t")
			_, err := s.client.Enqueue(asynq.NewTask("other", nil), asynq.TaskID("t"), asynq.Unique(time.Hour))
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				s.t.Errorf("with an ID that is taken: %v, want ErrTaskIDConflict", err)
			}
			if got := s.holder("other"); got != "" {
				s.t.Errorf("the conflict left a lock held by %q", got)
			}
		})
	})
	t.Run("kept until the task succeeds", func(t *testing.T) { everywhere(t, lockThroughRetry) })
	t.Run("gone when the task is revoked", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.Unique(time.Hour))
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
			s.awaitState("t", "")
			if got := s.holder("t"); got != "" {
				s.t.Errorf("the lock is held by %q, which is gone", got)
			}
		})
	})
	t.Run("gone when the archive is trimmed", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.Unique(time.Hour))
			srv := s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			s.awaitState("t", "archived")
			srv.Shutdown()
			if got := s.holder("t"); got != "t" {
				s.t.Errorf("the lock of an archived task is held by %q", got)
			}
			s.redis.ZAdd(ctx, s.queue.Archived(), redis.Z{Score: float64(time.Now().Add(-91 * 24 * time.Hour).Unix()), Member: "t"})
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
			s.awaitState("t", "")
			if got := s.holder("t"); got != "" {
				s.t.Errorf("the lock is held by %q, which was trimmed", got)
			}
		})
	})
	t.Run("gone when the task is deleted", func(t *testing.T) { everywhere(t, lockOfDeleted) })
	t.Run("that has passed to another task stays with it", func(t *testing.T) {
		everywhere(t, func(s *site) {
			started, proceed := make(chan struct{}), make(chan struct{})
			s.enqueue("t", asynq.Unique(time.Hour))
			s.serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
				close(started)
				<-proceed
				return nil
			})
			receive(s, started, "the task to start")
			s.redis.Del(ctx, s.queue.Unique("t", nil)) // its time is over
			if _, err := s.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("second"), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)); err != nil {
				s.t.Fatal(err)
			}
			close(proceed)
			s.awaitState("t", "")
			if got := s.holder("t"); got != "second" {
				s.t.Errorf("the lock is held by %q, want the second task", got)
			}
		})
	})
	t.Run("whose holder is gone is free", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.redis.Set(ctx, s.queue.Unique("t", nil), "long gone", time.Hour) // as another library's process may leave it
			s.enqueue("t", asynq.Unique(time.Hour))
			if got := s.holder("t"); got != "t" {
				s.t.Errorf("the lock is held by %q", got)
			}
		})
	})
	t.Run("lasts from when the task is to run", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.ProcessIn(time.Hour), asynq.Unique(time.Minute))
			if ttl := s.redis.TTL(ctx, s.queue.Unique("t", nil)).Val(); ttl < 60*time.Minute || ttl > 61*time.Minute+time.Second {
				s.t.Errorf("its TTL is %v, want 61 minutes", ttl)
			}
		})
	})
}

// lockOfDeleted has tasks deleted in all the ways there are.
func lockOfDeleted(s *site) {
	ctx, i := context.Background(), s.inspector()
	s.everyState()
	later := []asynq.Option{asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)}
	for _, id := range []string{"taken over", "one", "many1", "many2"} {
		s.enqueue(id, later...)
	}
	s.redis.Set(ctx, s.queue.Unique("taken over", nil), "many1", time.Hour) // its time was over, and another task has it now
	for _, id := range []string{"one", "taken over", "pending", "scheduled", "retry", "archived", "aggregating"} {
		if err := i.DeleteTask("default", id); err != nil {
			s.t.Errorf("%s: %v", id, err)
		}
		want := ""
		if id == "taken over" {
			want = "many1"
		}
		if got := s.holder(id); got != want {
			s.t.Errorf("the lock of %s is held by %q, want %q", id, got, want)
		}
	}
	s.redis.Del(ctx, s.queue.Unique("taken over", nil))
	if _, err := i.DeleteAllScheduledTasks("default"); err != nil {
		s.t.Error(err)
	}
	for _, id := range []string{"many1", "many2"} {
		if got := s.holder(id); got != "" {
			s.t.Errorf("the lock of %s is held by %q, and all such tasks are deleted", id, got)
		}
	}
}

func lockThroughRetry(s *site) {
	started, outcomes := make(chan struct{}, 3), make(chan error)
	s.enqueue("t", asynq.Unique(time.Hour), asynq.Retention(time.Hour))
	s.serve(asynq.Config{
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	}, func(context.Context, *asynq.Task) error {
		started <- struct{}{}
		return <-outcomes
	})
	for _, outcome := range []error{errors.New("failed"), asynq.Snooze(0), nil} {
		receive(s, started, "the task to start")
		if got := s.holder("t"); got != "t" {
			s.t.Errorf("while it runs the lock is held by %q", got)
		}
		outcomes <- outcome
	}
	s.awaitState("t", "completed")
	if got := s.holder("t"); got != "" {
		s.t.Errorf("the task has succeeded, and the lock is held by %q", got)
	}
	if _, err := s.client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour)); err != nil {
		s.t.Errorf("the next one: %v", err)
	}
}
