package asynq_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestGuarantee16Statistics(t *testing.T) {
	t.Parallel()
	t.Run("each attempt is counted once", func(t *testing.T) { everywhere(t, func(s *site) { countAttempts(s, false) }) })
	t.Run("also where replies are lost", func(t *testing.T) { everywhere(t, func(s *site) { countAttempts(s, true) }) })
	t.Run("what is no failure is not counted", func(t *testing.T) {
		everywhere(t, func(s *site) {
			harmless := errors.New("harmless")
			s.enqueue("t", asynq.MaxRetry(0))
			s.serve(asynq.Config{
				IsFailure:      func(err error) bool { return !errors.Is(err, harmless) },
				RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
			}, failTimes(3, harmless))
			s.awaitState("t", "")
			s.wantCounts(1, 0)
		})
	})
	t.Run("a snooze is not counted", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t", asynq.MaxRetry(0))
			s.serve(asynq.Config{}, failTimes(3, asynq.Snooze(0)))
			s.awaitState("t", "")
			s.wantCounts(1, 0)
		})
	})
	t.Run("a revoked task is counted as processed", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t")
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
			s.awaitState("t", "")
			s.wantCounts(1, 0)
		})
	})
	t.Run("start again at the end of the numbers", func(t *testing.T) {
		everywhere(t, func(s *site) {
			ctx := context.Background()
			s.redis.Set(ctx, s.queue.Processed(), int64(math.MaxInt64), 0)
			s.enqueue("t")
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
			s.awaitState("t", "")
			if n := s.redis.Get(ctx, s.queue.Processed()).Val(); n != "1" {
				s.t.Errorf("after %d comes %s, want 1", int64(math.MaxInt64), n)
			}
		})
	})
	t.Run("a day is kept for 90 days", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("t")
			s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
			s.awaitState("t", "archived")
			days := append(s.keys(s.queue.Processed()+":*"), s.keys(s.queue.Failed()+":*")...)
			if len(days) != 2 {
				s.t.Fatalf("the counts of the days are %v", days)
			}
			for _, key := range days {
				if ttl := s.redis.TTL(context.Background(), key).Val(); ttl < 89*24*time.Hour || ttl > 91*24*time.Hour {
					s.t.Errorf("the TTL of %s is %v", key, ttl)
				}
			}
		})
	})
}

// failTimes is a handler that returns an error at first.
func failTimes(n int64, err error) asynq.HandlerFunc {
	var calls atomic.Int64
	return func(context.Context, *asynq.Task) error {
		if calls.Add(1) <= n {
			return err
		}
		return nil
	}
}

// countAttempts runs tasks with all outcomes on two servers and compares the statistics with a count of the handler's own.
func countAttempts(s *site, faults bool) {
	p, opt := s.proxy()
	var processed, failed atomic.Int64
	handler := func(ctx context.Context, task *asynq.Task) error {
		n := processed.Add(1)
		if faults && n%20 == 0 {
			p.SwallowReplies(1, "evalsha", s.queue.Lease())
		}
		retried, _ := asynq.GetRetryCount(ctx)
		switch kind := strings.TrimLeft(task.Type(), "t0123456789"); {
		case kind == "" && len(task.Type())%2 == 0 && retried == 0:
			failed.Add(1)
			return errors.New("failed")
		case kind == "panics" && retried < 2:
			failed.Add(1)
			panic("deliberate")
		case kind == "archived":
			failed.Add(1)
			return asynq.SkipRetry
		}
		return nil
	}
	cfg := asynq.Config{Concurrency: 5, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }}
	s.enqueueMany(150)
	s.enqueue("panics")
	s.enqueue("archived", asynq.Unique(time.Hour))
	s.enqueue("1archived")
	s.enqueue("2panics", asynq.Retention(time.Hour))
	first, second := s.serveOn(opt, cfg, handler), s.serveOn(opt, cfg, handler)
	s.eventually(func() bool { return len(s.keys(s.queue.TaskPrefix()+"*")) == 3 && s.state("2panics") == "completed" }, "all tasks to end")
	first.Shutdown()
	second.Shutdown()
	s.wantCounts(processed.Load(), failed.Load())
}
