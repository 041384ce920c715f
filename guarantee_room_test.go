package asynq_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// The queues of these tests are never looked at: who waits for tasks hears of them by a marker, or not at all.

func TestWhoWaitsForRoomHearsOfIt(t *testing.T) {
	everywhere(t, func(s *site) {
		for name, most := range map[string]int{"one": 1, "two": 2, "in-order": asynq.InOrder} {
			cfg := asynq.TakerConfig{QueueConcurrency: map[string]int{name: most}, Queues: map[string]int{name: 1}, TaskCheckInterval: time.Hour}
			here := s.taker(cfg)
			refused := make(chan struct{}, 100)
			cfg.Observer = &asynq.Observer{TurnEnded: func(turn asynq.TurnStats) {
				if turn.Wanted > 0 && turn.Fetched == 0 {
					refused <- struct{}{}
				}
			}}
			there := s.taker(cfg)
			held := max(most, 1)
			for i := range held + 3 {
				s.enqueue(name+strconv.Itoa(i), asynq.Queue(name))
			}
			var leases []*asynq.Lease
			for len(leases) < held {
				leases = append(leases, s.take(here, held-len(leases))...)
			}
			next := s.taking(s.ctx(), there, 1)
			receive(s, refused, "the answer that there is no room")
			s.ok(leases[0].Done(s.ctx(), nil))
			last := receive(s, next, "the task that there is room for")
			next = s.taking(s.ctx(), there, 1)
			receive(s, refused, "the answer that there is none again")
			s.ok(last[0].Release(s.ctx()))
			s.wantIDs(receive(s, next, "the task that was given back"), last[0].ID())
		}
	})
}

func TestWhoWaitsForARetryHearsOfIt(t *testing.T) {
	everywhere(t, func(s *site) {
		cfg := asynq.TakerConfig{
			QueueConcurrency: map[string]int{"default": asynq.InOrder}, TaskCheckInterval: time.Hour,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		}
		here, there := s.taker(cfg), s.taker(cfg)
		s.enqueue("first", asynq.MaxRetry(1))
		s.enqueue("second")
		l := s.take(here, 1)[0]
		next := s.taking(s.ctx(), there, 1)
		s.ok(l.Fail(s.ctx(), errors.New("not yet")))
		again := receive(s, next, "the task that is tried again")
		s.wantIDs(again, "first")
		next = s.taking(s.ctx(), here, 1)
		s.ok(again[0].Fail(s.ctx(), errors.New("never")))
		s.wantIDs(receive(s, next, "the task behind the one that was archived"), "second")
	})
}
