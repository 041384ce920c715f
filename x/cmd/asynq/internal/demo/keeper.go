package demo

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq"
)

// keepEvery is how often it is looked for what has become too much.
const keepEvery = 5 * time.Second

// bounds are how many tasks of each state a queue keeps.
var bounds = map[asynq.TaskState]int{
	asynq.TaskStatePending:   1000,
	asynq.TaskStateScheduled: 250,
	asynq.TaskStateRetry:     250,
	asynq.TaskStateArchived:  120,
	asynq.TaskStateCompleted: 600,
}

// unserved bounds the tasks that wait in queues from which nobody takes any.
const unserved = 200

// keep deletes what is beyond the bounds, until ctx ends.
func (d *Demo) keep(ctx context.Context) {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := d.trim(ctx); err != nil && ctx.Err() == nil {
			d.opts.warn("the queues are not trimmed", "error", err)
		}
	}
}

// trim deletes what is beyond the bounds: of scheduled tasks and those to retry the last to come, of all others the oldest.
func (d *Demo) trim(ctx context.Context) error {
	infos, err := d.inspector.WithMemorySamples(0).QueueInfos(ctx, queues...)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range infos {
		if r.Err != nil {
			if !errors.Is(r.Err, asynq.ErrQueueNotFound) {
				failed = errors.Join(failed, r.Err)
			}
			continue
		}
		sizes := map[asynq.TaskState]int{
			asynq.TaskStatePending: r.Info.Pending, asynq.TaskStateScheduled: r.Info.Scheduled, asynq.TaskStateRetry: r.Info.Retry,
			asynq.TaskStateArchived: r.Info.Archived, asynq.TaskStateCompleted: r.Info.Completed,
		}
		for state, size := range sizes {
			most := bounds[state]
			if state == asynq.TaskStatePending && (r.Queue == newsletter || r.Queue == legacy) {
				most = unserved
			}
			if size <= most {
				continue
			}
			seen := 0
			beyond := asynq.TaskFilter{Match: func(*asynq.TaskInfo) bool {
				seen++
				return seen > most
			}}
			if _, err := d.inspector.DeleteTasks(ctx, r.Queue, state, beyond); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}
