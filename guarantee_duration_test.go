package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestGuarantee14Durations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("options under a second round up", func(t *testing.T) {
		everywhere(t, func(s *site) {
			for _, d := range []time.Duration{1, time.Millisecond, 999 * time.Millisecond, time.Second} {
				id := fmt.Sprint("t", int64(d))
				before := time.Now()
				info := s.enqueue(id, asynq.Timeout(d), asynq.Retention(d), asynq.Unique(d), asynq.Deadline(before.Add(time.Hour+d)))
				m := s.message(id)
				if m.Timeout != 1 || m.Retention != 1 || info.Timeout != time.Second || info.Retention != time.Second {
					s.t.Errorf("%v: the timeout is %d s and the retention %d s, want 1", d, m.Timeout, m.Retention)
				}
				if got := time.Unix(m.Deadline, 0); got.Before(before.Add(time.Hour+d)) || got.After(before.Add(time.Hour+d+time.Second)) {
					s.t.Errorf("%v: the deadline is %v, want %v rounded up", d, got, before.Add(time.Hour+d))
				}
				if ttl := s.redis.PTTL(ctx, s.queue.Unique(id, nil)).Val(); ttl > time.Second || ttl <= 0 && !s.gone(s.queue.Unique(id, nil)) {
					s.t.Errorf("%v: the lock's TTL is %v, want 1 s", d, ttl)
				}
			}
			s.enqueue("longer", asynq.Timeout(1001*time.Millisecond), asynq.Retention(59*time.Second+1))
			if m := s.message("longer"); m.Timeout != 2 || m.Retention != 60 {
				s.t.Errorf("the timeout is %d s and the retention %d s, want 2 and 60", m.Timeout, m.Retention)
			}
			s.enqueue("none", asynq.Timeout(0))
			if m := s.message("none"); m.Timeout != 30*60 {
				s.t.Errorf("without timeout and deadline the timeout is %d s, want that of 30 minutes", m.Timeout)
			}
		})
	})
	t.Run("a deadline that has passed runs no handler", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var ran tally
			reports := make(chan string, 1)
			s.enqueue("t", asynq.Deadline(time.Now().Add(-time.Minute)), asynq.MaxRetry(0))
			s.serve(asynq.Config{ErrorHandler: reportTo(reports)}, ran.handle)
			s.awaitState("t", "archived")
			if got := receive(s, reports, "the ErrorHandler"); got != "t: context deadline exceeded" || ran.of("t") > 0 {
				s.t.Errorf("it ran %d times, and the error is %q", ran.of("t"), got)
			}
		})
	})
	t.Run("nothing runs before its time", func(t *testing.T) { everywhere(t, neverEarly) })
	t.Run("a configured duration under a second is no default", func(t *testing.T) {
		everywhere(t, func(s *site) {
			checks := make(chan error, 1000)
			h := newHeld()
			s.enqueue("t")
			s.enqueue("kept", asynq.Retention(time.Millisecond))
			before := time.Now()
			srv := s.serve(asynq.Config{
				Concurrency: 2, LeaseDuration: time.Millisecond, ShutdownTimeout: time.Millisecond, JanitorInterval: 10 * time.Millisecond,
				HealthCheckInterval: time.Millisecond, HealthCheckFunc: func(err error) {
					select {
					case checks <- err:
					default:
					}
				},
			}, func(ctx context.Context, task *asynq.Task) error {
				if task.Type() == "kept" {
					return nil
				}
				return h.handle(ctx, task)
			})
			receive(s, h.started, "the task to start")
			lease := time.Unix(int64(s.redis.ZScore(ctx, s.queue.Lease(), "t").Val()), 0)
			if lease.After(time.Now().Add(2*time.Second)) || !lease.After(before) {
				s.t.Errorf("a lease of 1 ms ends %v after the start, want 1 s, rounded up", lease.Sub(before))
			}
			for range 20 {
				if err := receive(s, checks, "20 health checks"); err != nil {
					s.t.Errorf("a health check failed: %v", err)
				}
			}
			s.awaitState("kept", "") // within the second of its retention
			if d := time.Since(before); d > 7*time.Second {
				s.t.Errorf("health checks and janitor took %v, with intervals of milliseconds", d)
			}
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > 4*time.Second {
				s.t.Errorf("the shutdown took %v, with a timeout of 1 ms", d)
			}
			close(h.proceed)
		})
	})
}

// gone reports whether a key does not exist, or no longer.
func (s *site) gone(key string) bool {
	return s.redis.Exists(context.Background(), key).Val() == 0
}

// neverEarly measures when delayed tasks and retries start.
func neverEarly(s *site) {
	type start struct {
		id string
		at time.Time
	}
	starts := make(chan start, 20)
	due := make(map[string]time.Time)
	s.serve(asynq.Config{
		Concurrency: 10, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond },
	}, func(ctx context.Context, task *asynq.Task) error {
		if n, _ := asynq.GetRetryCount(ctx); task.Type() == "retried" && n == 0 {
			starts <- start{"first", time.Now()}
			return errors.New("failed")
		}
		starts <- start{task.Type(), time.Now()}
		return nil
	})
	for i := range 5 {
		d := time.Duration(i*i*77+1) * time.Millisecond
		in, at := fmt.Sprint("in", i), fmt.Sprint("at", i)
		due[in], due[at] = time.Now().Add(d), time.Now().Add(d)
		s.enqueue(in, asynq.ProcessIn(d))
		s.enqueue(at, asynq.ProcessAt(due[at]))
	}
	s.enqueue("retried")
	for range 12 {
		got := receive(s, starts, "all tasks to start")
		switch want, ok := due[got.id]; {
		case got.id == "first":
			due["retried"] = got.at.Add(100 * time.Millisecond)
		case !ok:
			s.t.Errorf("%s started", got.id)
		case got.at.Before(want):
			s.t.Errorf("%s started %v early", got.id, want.Sub(got.at))
		case got.at.Sub(want) > 8*time.Second: // what nothing tells of is looked for every 5 s
			s.t.Errorf("%s started %v late", got.id, got.at.Sub(want))
		}
	}
	if info := s.enqueue("past", asynq.ProcessAt(time.Now().Add(-time.Hour))); info.State != asynq.TaskStatePending {
		s.t.Errorf("a task whose time has passed is %v", info.State)
	}
	receive(s, starts, "a task whose time has passed")
}
