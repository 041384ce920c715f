package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestReplaceTaskPayload(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		s.enqueue("t", asynq.ProcessIn(time.Hour))
		if err := i.UpdateTaskPayload("default", "t", []byte("old")); err != nil {
			s.t.Fatal(err)
		}
		replace := func(seen, payload, want string, changed bool) {
			s.t.Helper()
			if err := i.ReplaceTaskPayload(ctx, "default", "t", []byte(seen), []byte(payload)); errors.Is(err, asynq.ErrTaskChanged) != changed || !changed && err != nil {
				s.t.Errorf("%q by %q: %v", seen, payload, err)
			}
			if info, err := i.GetTaskInfo("default", "t"); err != nil || string(info.Payload) != want {
				s.t.Errorf("%q by %q: then it is %q, error %v", seen, payload, info.Payload, err)
			}
		}
		replace("", "one", "old", true)
		replace("old", "one", "one", false)
		replace("old", "one", "one", false) // its answer was lost
		replace("old", "two", "one", true)
		if err := i.Reschedule(ctx, "default", "t", time.Now().Add(2*time.Hour)); err != nil {
			s.t.Fatal(err)
		}
		replace("one", "", "", false)
		replace("", "two", "two", false)
	})
}

// Of those who add a line to what they have read, nobody's line is lost.
func TestReplaceTaskPayloadLosesNothing(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		s.enqueue("t", asynq.ProcessIn(time.Hour))
		const people, times = 4, 10
		add := func(line string) error {
			for {
				info, err := i.GetTaskInfo("default", "t")
				if err != nil {
					return err
				}
				err = i.ReplaceTaskPayload(ctx, "default", "t", info.Payload, append(info.Payload, line...))
				if !errors.Is(err, asynq.ErrTaskChanged) {
					return err
				}
			}
		}
		var all sync.WaitGroup
		for who := range people {
			all.Go(func() {
				for n := range times {
					if err := add(fmt.Sprintf("%d %d\n", who, n)); err != nil {
						s.t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		info, err := i.GetTaskInfo("default", "t")
		if err != nil {
			s.t.Fatal(err)
		}
		for who := range people {
			for n := range times {
				if line := fmt.Sprintf("%d %d\n", who, n); strings.Count(string(info.Payload), line) != 1 {
					s.t.Errorf("%q is there %d times", line, strings.Count(string(info.Payload), line))
				}
			}
		}
	})
}
