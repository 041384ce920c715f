package asynq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// What schedulers leave can be forgotten once they have ended, and not before.
func TestForgetSchedulers(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		sched, entry := s.member(s.opt(), asynq.SchedulerOpts{})
		s.start(sched)
		s.awaitLead(sched)
		s.eventually(func() bool { return len(s.history(entry)) > 0 }, "an event in the history")
		if err := i.ForgetSchedulers(ctx, "g", entry); err == nil || !strings.Contains(err.Error(), "a scheduler leads the group") {
			s.t.Errorf("of a group that is led: %v", err)
		}
		sched.Shutdown()
		if len(s.history(entry)) == 0 || len(s.keys("asynq:scheduler_groups:*")) != 1 {
			s.t.Error("something was forgotten although the group was led")
		}
		if err := i.ForgetSchedulers(ctx, "", "another"); err != nil || len(s.history(entry)) == 0 {
			s.t.Errorf("of another entry: %v", err)
		}
		for range 2 {
			if err := i.ForgetSchedulers(ctx, "g", entry); err != nil {
				s.t.Error(err)
			}
		}
		if left := s.keys("asynq:sched*"); len(left) != 0 {
			s.t.Errorf("left: %q", left)
		}
	})
}
