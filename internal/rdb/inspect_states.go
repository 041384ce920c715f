package rdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// maxStates bounds the tasks whose states one pipeline looks up.
const maxStates = 500

// TaskStates looks up the states of tasks of any queues, each with one plain command, in one round trip for 500 of them. The error is
// ErrTaskGone where there is no task.
func (b *Broker) TaskStates(ctx context.Context, tasks []TaskName) ([]wire.State, []error) {
	states, errs := make([]wire.State, len(tasks)), make([]error, len(tasks))
	for first := 0; first < len(tasks); first += maxStates {
		part := tasks[first:min(first+maxStates, len(tasks))]
		cmds := make([]*redis.StringCmd, len(part))
		_, _ = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
			for i, t := range part {
				cmds[i] = pipe.HGet(ctx, b.queues.get(t.Queue).keys.Task(t.ID), "state")
			}
			return nil
		})
		for i, cmd := range cmds {
			states[first+i], errs[first+i] = part[i].readState(cmd)
		}
	}
	return states, errs
}

func (t TaskName) readState(cmd *redis.StringCmd) (wire.State, error) {
	name, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return 0, ErrTaskGone
	}
	if err != nil {
		return 0, fmt.Errorf("rdb: looking up a state: %w", err)
	}
	state, err := wire.ParseState(name)
	if err != nil {
		return 0, fmt.Errorf("rdb: task %q of queue %q: %w", t.ID, t.Queue, err)
	}
	return state, nil
}
