package guide

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
)

// Remind enqueues a task that runs a day before an appointment.
func Remind(ctx context.Context, client *asynq.Client, appointment time.Time) (*asynq.TaskInfo, error) {
	task := asynq.NewTask("email:reminder", nil)
	return client.EnqueueContext(ctx, task, asynq.ProcessAt(appointment.Add(-24*time.Hour)))
}

// StartScheduler enqueues tasks periodically. Every instance of the program may call it: each tick
// is enqueued exactly once.
func StartScheduler(redis asynq.RedisConnOpt) (*asynq.Scheduler, error) {
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
		Group:       "billing",
		MissedTicks: asynq.EnqueueLastMissed, // after an outage of all instances
	})
	if _, err := scheduler.Register("30 4 * * MON-FRI", asynq.NewTask("invoices:send", nil), asynq.Queue("low")); err != nil {
		return nil, err
	}
	if _, err := scheduler.Register("@every 15m", asynq.NewTask("cache:refresh", nil)); err != nil {
		return nil, err
	}
	if err := scheduler.Start(); err != nil {
		return nil, err
	}
	return scheduler, nil
}
