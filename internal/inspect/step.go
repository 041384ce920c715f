package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// StepFields are what the hash of a task has about its steps.
type StepFields struct {
	Steps   map[string]string // records by name; see wire.DecodeStep
	Signals map[string]string // values by name
	Awaits  string            // see wire.DecodeAwaits; only while the task waits
}

// stepsPerCall is the number of fields that one call examines. Each may have a megabyte.
const stepsPerCall = 10

// Steps returns the steps and signals of a task. They may change between the calls. It returns
// ErrTaskGone if there is no such task.
func (b *Inspector) Steps(ctx context.Context, queue, id string) (*StepFields, error) {
	key := b.Keys(queue).Task(id)
	task, err := b.Client().HMGet(ctx, key, wire.FieldState, wire.FieldAwaits).Result()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, script.ErrTaskGone
	case err != nil:
		return nil, fmt.Errorf("inspect: reading the steps of a task: %w", err)
	case task[0] == nil:
		return nil, script.ErrTaskGone
	}
	f := &StepFields{Steps: make(map[string]string), Signals: make(map[string]string)}
	if state := task[0]; state != wire.StateActive.String() && state != wire.StateCompleted.String() {
		f.Awaits, _ = task[1].(string) // absent: none
	}
	err = errors.Join(b.scanFields(ctx, key, wire.FieldStep, f.Steps), b.scanFields(ctx, key, wire.FieldSignal, f.Signals))
	if err != nil {
		return nil, fmt.Errorf("inspect: reading the steps of a task: %w", err)
	}
	return f, nil
}

// scanFields adds the fields with a prefix to found.
func (b *Inspector) scanFields(ctx context.Context, key, prefix string, found map[string]string) error {
	for cursor := uint64(0); ; {
		page, next, err := b.Client().HScan(ctx, key, cursor, prefix+"*", stepsPerCall).Result()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page); i += 2 {
			found[strings.TrimPrefix(page[i], prefix)] = page[i+1]
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
