package asynq

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// A term that is prolonged by an answer that comes after its end wakes the ticks, which may have found it ended in between.
func TestTermProlongedLate(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		now := time.Now()
		s := newScheduler(connection{}, SchedulerOpts{Group: "g"})
		s.now = func() time.Time { return now }
		answer := rdb.Lead{Leads: true, Began: 1, Until: 1}
		s.takeNote(answer, now)
		asked := now.Add(s.lease - time.Millisecond)
		now = asked
		if late {
			now = now.Add(time.Second)
			if _, leads := s.leads(now); leads {
				t.Error("the term has not ended")
			}
		}
		s.takeNote(answer, asked)
		if _, leads := s.leads(now); !leads {
			t.Error("the term has ended")
		}
		if woken := len(s.wakeTicks) == 1; woken != late {
			t.Errorf("late %v: the ticks are woken: %v", late, woken)
		}
	}
}
