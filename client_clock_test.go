package asynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// clocked are connection options with a clock of their own.
type clocked struct {
	asynq.RedisClientOpt
	now time.Time
}

func (c clocked) Now() time.Time { return c.now }

func TestClientTakesTimeFromConnection(t *testing.T) {
	everywhere(t, func(s *site) {
		now := time.Now().Add(1000 * time.Hour).Truncate(time.Second)
		opt := clocked{s.opt(), now}
		for name, client := range map[string]*asynq.Client{
			"given":             s.clientOn(opt),
			"under a namespace": s.clientOn(asynq.WithNamespace(opt, "asynq")),
		} {
			later := asynq.NewTask("test", nil, asynq.ProcessIn(time.Hour))
			over := asynq.NewTask("test", nil, asynq.ProcessAt(now.Add(-time.Hour)))
			results := client.BatchEnqueueContext(context.Background(), []*asynq.Task{later, over})
			single, err := client.Enqueue(later)
			if err != nil || results[0].Err != nil || results[1].Err != nil {
				s.t.Fatalf("%s: %v, %+v", name, err, results)
			}
			for _, info := range []*asynq.TaskInfo{single, results[0].TaskInfo} {
				if want := now.Add(time.Hour); !info.NextProcessAt.Equal(want) {
					s.t.Errorf("%s: a task is to be processed at %v, want %v", name, info.NextProcessAt, want)
				}
			}
			if got := results[1].TaskInfo.State; got != asynq.TaskStatePending {
				s.t.Errorf("%s: a task whose time is over is %v", name, got)
			}
		}
	})
}
