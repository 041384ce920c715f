package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// ending brings a run to its end, and records what is there then.
type ending struct {
	inspector *asynq.Inspector
	queues    []string
	log       *history.Writer
}

// lookEvery is how often queues are looked at.
const lookEvery = 200 * time.Millisecond

// settle waits until no task is left to run. If for a while nothing happens any more, what is left is left: the checker will say so.
func (e *ending) settle(ctx context.Context, patience time.Duration) error {
	last, since := -1, time.Now()
	for {
		left, done, err := e.count()
		if err == nil && left == 0 {
			return nil
		}
		if err == nil && left+done != last { // each attempt changes one of the two
			last, since = left+done, time.Now()
		}
		if time.Since(since) > patience {
			return err
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// count is how many tasks are left to run in all queues, and how many attempts have ended.
func (e *ending) count() (left, done int, err error) {
	for _, queue := range e.queues {
		info, err := e.inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		left += info.Pending + info.Active + info.Scheduled + info.Retry + info.Aggregating
		done += info.ProcessedTotal
	}
	return left, done, nil
}

var states = []asynq.TaskState{
	asynq.TaskStateCompleted, asynq.TaskStateArchived, asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateScheduled,
	asynq.TaskStateRetry, asynq.TaskStateAggregating,
}

// record adds to the history what is in Redis: tasks, statistics, and what is wrong there.
func (e *ending) record(ctx context.Context) error {
	for _, queue := range e.queues {
		info, err := e.inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		aside := 0 // planted, and set aside in the archive, which counts as a failed attempt
		for _, state := range states {
			for t, err := range e.inspector.Tasks(ctx, queue, state, asynq.TaskFilter{}) {
				if err != nil {
					return fmt.Errorf("tasks of %s in state %v: %w", queue, state, err)
				}
				if strings.HasPrefix(t.ID, planted) {
					aside++
					continue
				}
				e.log.Write(history.Event{
					Kind: history.Outcome, Task: t.ID, Queue: queue, State: t.State.String(), Retried: t.Retried, Err: t.LastErr,
				})
			}
		}
		e.log.Write(history.Event{
			Kind: history.Queue, Queue: queue, Processed: info.ProcessedTotal - aside, Failures: info.FailedTotal - aside,
		})
	}
	for f, err := range e.inspector.Diagnose(ctx, asynq.DiagnoseOptions{Queues: e.queues}) {
		if err != nil {
			return fmt.Errorf("diagnosis: %w", err)
		}
		if !strings.HasPrefix(f.TaskID, planted) {
			e.log.Write(history.Event{Kind: history.Finding, Queue: f.Queue, Task: f.TaskID, Err: f.String()})
		}
	}
	return nil
}
