package demo

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq"
)

// trimInterval is how often queues are trimmed.
const trimInterval = 5 * time.Second

// bounds are the maximum numbers of tasks per state in a queue.
var bounds = map[asynq.TaskState]int{
	asynq.TaskStatePending:   1000,
	asynq.TaskStateScheduled: 250,
	asynq.TaskStateRetry:     250,
	asynq.TaskStateArchived:  120,
	asynq.TaskStateCompleted: 600,
}

// unserved is the maximum number of pending tasks in queues without a server.
const unserved = 200

// trimLoop trims the queues until ctx ends.
func (d *Demo) trimLoop(ctx context.Context) {
	t := time.NewTicker(trimInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := d.trim(ctx); err != nil && ctx.Err() == nil {
			d.opts.warn("cannot trim the queues", "error", err)
		}
	}
}

// trim deletes the tasks that exceed the bounds: for scheduled and retry tasks those that are due
// last, otherwise the oldest.
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
