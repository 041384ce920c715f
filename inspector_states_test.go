package asynq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestInspectorTaskStates(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		s.enqueue("a")
		s.enqueue("b", asynq.Queue("other"), asynq.ProcessIn(time.Hour))
		refs := []asynq.TaskRef{{"other", "b"}, {"default", "none"}, {"nowhere", "a"}, {"default", "a"}}
		got := i.TaskStates(ctx, refs...)
		if got[0].State != asynq.TaskStateScheduled || got[3].State != asynq.TaskStatePending || got[0].Err != nil || got[3].Err != nil {
			s.t.Errorf("states: %+v", got)
		}
		for _, n := range []int{1, 2} {
			if !errors.Is(got[n].Err, asynq.ErrTaskNotFound) || got[n].State != 0 {
				s.t.Errorf("of a task that there is not: %+v", got[n])
			}
		}
		if got := i.TaskStates(ctx); len(got) != 0 {
			s.t.Errorf("of none: %+v", got)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for _, r := range i.TaskStates(ended, refs...) {
			if !errors.Is(r.Err, context.Canceled) || r.State != 0 {
				s.t.Errorf("after the end of ctx: %+v", r)
			}
		}
		for _, r := range i.TaskStates(nil, refs...) { //nolint:staticcheck // A nil context is what is tested.
			if r.Err == nil {
				s.t.Error("no error without a context")
			}
		}
	})
}
