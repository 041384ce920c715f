package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/test/chaos/history"
	"github.com/asynq-go/asynq/x/doctor"
)

// finisher waits for the end of a run and records the final state.
type finisher struct {
	redis     asynq.RedisConnOpt
	inspector *asynq.Inspector
	queues    []string
	log       *history.Writer
}

// pollInterval is the poll interval of queues.
const pollInterval = 200 * time.Millisecond

// waitIdle waits until no tasks are left to run. If nothing happens for a while, it returns, and
// the checker reports the remaining tasks.
func (e *finisher) waitIdle(ctx context.Context, timeout time.Duration) error {
	last, since := -1, time.Now()
	for {
		left, done, err := e.count()
		if err == nil && left == 0 {
			return nil
		}
		if err == nil && left+done != last { // each attempt changes one of the two
			last, since = left+done, time.Now()
		}
		if time.Since(since) > timeout {
			return err
		}
		if err := pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// count returns the number of tasks that are left to run and of attempts that have ended, in all
// queues.
func (e *finisher) count() (left, done int, err error) {
	for _, queue := range e.queues {
		info, err := e.inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		left += info.Pending + info.Held + info.Active + info.Scheduled + info.Retry + info.Aggregating
		done += info.ProcessedTotal
	}
	return left, done, nil
}

var states = []asynq.TaskState{
	asynq.TaskStateCompleted, asynq.TaskStateArchived, asynq.TaskStatePending, asynq.TaskStateActive, asynq.TaskStateScheduled,
	asynq.TaskStateRetry, asynq.TaskStateAggregating,
}

// record adds the final state of Redis to the history: tasks, statistics and findings of the
// diagnosis.
func (e *finisher) record(ctx context.Context) error {
	for _, queue := range e.queues {
		info, err := e.inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		invalid := 0 // planted tasks archived as invalid, which count as failed attempts
		for _, state := range states {
			for t, err := range e.inspector.Tasks(ctx, queue, state, asynq.TaskFilter{}) {
				if err != nil {
					return fmt.Errorf("tasks of %s in state %v: %w", queue, state, err)
				}
				if strings.HasPrefix(t.ID, planted) {
					invalid++
					continue
				}
				e.log.Write(history.Event{
					Kind: history.Outcome, Task: t.ID, Queue: queue, State: t.State.String(), Retried: t.Retried, Err: t.LastErr,
				})
			}
		}
		e.log.Write(history.Event{
			Kind: history.Queue, Queue: queue, Processed: info.ProcessedTotal - invalid, Failures: info.FailedTotal - invalid,
		})
	}
	for f, err := range doctor.Diagnose(ctx, e.redis, doctor.Options{Queues: e.queues}) {
		if err != nil {
			return fmt.Errorf("diagnosis: %w", err)
		}
		if !strings.HasPrefix(f.TaskID, planted) {
			e.log.Write(history.Event{Kind: history.Finding, Queue: f.Queue, Task: f.TaskID, Err: f.String()})
		}
	}
	return nil
}
