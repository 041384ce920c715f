package asynq_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// Ticks that came due when nobody led are enqueued late after a short gap; after a long one the policy says what becomes of them.
func TestGroupMissedTicks(t *testing.T) {
	const every, away = 10 * time.Minute, time.Hour
	for _, tt := range []struct {
		name   string
		policy asynq.MissedTicks
		gap    time.Duration
		want   int // of the six ticks
	}{
		{"skip", asynq.SkipMissed, away, 0},
		{"by default", asynq.MissedTicksDefault, away, 0},
		{"last", asynq.EnqueueLastMissed, away, 1},
		{"all", asynq.EnqueueAllMissed, away, 6},
		{"skip after a short gap", asynq.SkipMissed, 0, 6},
		{"last after a short gap", asynq.EnqueueLastMissed, 0, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				ctx := context.Background()
				base := time.Now()
				if until := base.Truncate(every).Add(every); time.Until(until) < 2*patience {
					base = base.Add(-2 * patience) // no seventh tick during the test
				}
				join := func(ago time.Duration) (*asynq.Scheduler, string) {
					sched := s.scheduler(s.opt(), asynq.SchedulerOpts{Group: "g", MissedTicks: tt.policy})
					offset := time.Until(base) - ago
					sched.MoveClock(func() time.Time { return time.Now().Add(offset) })
					id, err := sched.RegisterFast(every, asynq.MissedTicksDefault, asynq.NewTask("x", nil))
					if err != nil {
						t.Fatal(err)
					}
					s.start(sched)
					s.awaitLead(sched)
					return sched, id
				}
				a, entry := join(away)
				record := s.queue.Tick(entry)
				s.eventually(func() bool { return s.redis.Exists(ctx, record).Val() == 1 }, "the entry to be known")
				a.Shutdown()
				s.redis.HIncrBy(ctx, s.keys("asynq:scheduler_groups:*")[0], "until", -tt.gap.Milliseconds())

				b, _ := join(0)
				var ids []string
				last := base.Truncate(every)
				for i := range 6 {
					if i >= 6-tt.want {
						ids = append(ids, asynq.TickTaskID(entry, last.Add(time.Duration(i-5)*every)))
					}
				}
				if tt.want == 0 {
					s.eventually(func() bool {
						return s.log.count("were missed") == 1 && s.redis.Get(ctx, record).Val() == strconv.FormatInt(last.UnixMilli(), 10)+"::"
					}, "the ticks to be skipped")
				}
				s.eventually(func() bool { return s.pending() >= tt.want }, "%d ticks", tt.want)
				b.Shutdown()
				got := s.redis.LRange(ctx, s.queue.Pending(), 0, -1).Val()
				if slices.Reverse(got); !slices.Equal(got, ids) {
					t.Errorf("enqueued %d tasks, want those of the last %d ticks", len(got), tt.want)
				}
				// The next leader has nothing to make up for.
				c, _ := join(0)
				s.eventually(func() bool { return s.log.count("leads its group") == 3 }, "a third leader")
				c.Shutdown()
				if s.pending() != tt.want {
					t.Errorf("%d tasks after another change of the leader, want %d", s.pending(), tt.want)
				}
			})
		})
	}
}
