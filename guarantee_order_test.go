package asynq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestInOrderNothingOvertakes(t *testing.T) {
	everywhere(t, func(s *site) {
		var starts tally
		s.enqueueMany(6, asynq.MaxRetry(2))
		s.crashWith(1)
		cfg := asynq.Config{
			Concurrency: 5, QueueConcurrency: map[string]int{"default": asynq.InOrder}, LeaseDuration: time.Second,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		}
		fails := map[string]int{"t1": 1, "t3": 9}
		for range 3 {
			s.serve(cfg, func(ctx context.Context, task *asynq.Task) error {
				starts.add(task.Type())
				if n, _ := asynq.GetRetryCount(ctx); n < fails[task.Type()] {
					return errors.New("not yet")
				}
				return nil
			})
		}
		s.awaitState("t3", "archived")
		s.eventually(func() bool { return s.state("t5") == "" }, "the last task to end")
		want := []string{"t0", "t1", "t1", "t2", "t3", "t3", "t3", "t4", "t5"}
		if got := starts.order(); !slices.Equal(got, want) {
			s.t.Errorf("started %q, want %q", got, want)
		}
	})
}

func TestATakerKeepsTheOrder(t *testing.T) {
	everywhere(t, func(s *site) {
		inOrder := map[string]int{"default": asynq.InOrder}
		soon := func(int, error, *asynq.Task) time.Duration { return time.Millisecond }
		taker := s.taker(asynq.TakerConfig{QueueConcurrency: inOrder, RetryDelayFunc: soon})
		s.enqueueMany(3)
		for _, want := range []string{"t0", "t0", "t1"} {
			leases := s.take(taker, 3)
			s.wantIDs(leases, want)
			if l := leases[0]; l.Info().Retried == 0 && want == "t0" {
				s.ok(l.Fail(s.ctx(), errors.New("not yet")))
			} else {
				s.ok(l.Done(s.ctx(), nil))
			}
		}

		// A change of the queues takes the order along.
		changed := s.taker(asynq.TakerConfig{RetryDelayFunc: soon})
		s.ok(changed.SetQueues(map[string]int{"default": 1}, inOrder))
		s.enqueue("t3")
		for _, want := range []string{"t2", "t2"} {
			l := s.take(changed, 3)[0]
			s.wantIDs([]*asynq.Lease{l}, want)
			s.ok(l.Fail(s.ctx(), errors.New("not yet")))
		}
	})
}
