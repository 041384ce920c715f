package dash

import (
	"context"
	"errors"
	"testing"

	"github.com/asynq-go/asynq"
)

// The history has what servers recorded before the dashboard started, of all queues, of one, and of
// a task type.
func TestRecordedHistory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for range 3 {
			enqueue(t, client, asynq.NewTask("email:send", nil), asynq.Queue("mail"))
		}
		enqueue(t, client, asynq.NewTask("report", nil), asynq.Queue("low"))
		s := asynq.NewServer(r, asynq.Config{Queues: map[string]int{"mail": 1, "low": 1}, LogLevel: asynq.FatalLevel})
		done := make(chan struct{}, 4)
		if err := s.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			done <- struct{}{}
			if task.Type() == "report" {
				return errors.New("the disk is full")
			}
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			<-done
		}
		s.Shutdown() // writes what it counted

		o := quick(client, insp)
		o.Target = "redis:6379"
		d := drive(t, o)
		d.see("mail", "low")
		d.keys("H")
		d.see("History › Queue low", "last hour", "Attempts 1 ", "Failed 1 ", "report", "100.0")
		d.lacks("email:send")
		d.keys("esc down H")
		d.see("History › Queue mail", "Attempts 3 ", "Failed 0 ", "email:send")
		d.keys("w")
		d.see("last 6 hours", "Attempts 3 ")
		d.keys("enter")
		d.see("History › Queue mail › email:send", "last 6 hours", "Attempts 3 ", "QUEUE")
		d.keys("w w w")
		d.see("last hour", "Attempts 3 ", "enter tasks")
		d.keys("enter")
		d.see("tasks. Looked in redis:6379.")
	})
}

// All queues have a history if none is selected, and a queue without attempts says where it looked.
func TestHistoryOfAllQueues(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		o := quick(client, insp)
		o.Target = "redis:6379"
		d := drive(t, o)
		d.see("No queues yet.", "Looked in redis:6379.")
		d.keys("H")
		d.see("History › All queues", "No attempts were recorded in the last hour. Looked in redis:6379.")
		d.keys("w w")
		d.see("last 48 hours. Looked in")
	})
}
