package rdb

import (
	"context"
	"fmt"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// TaskInfo is what is known of a task.
type TaskInfo struct {
	State     wire.State
	Message   *wire.TaskMessage
	Result    []byte
	ProcessAt time.Time // zero unless it waits for its time
	Orphaned  bool      // active, but nobody holds its lease
	Token     string    // that it is held under; "" if it is not, or by another library's process
	Settled   string    // the token of its last attempt that was settled; "" if none was

	// What listings tell besides. They leave Message nil where it cannot be read.
	ID    string
	Queue string
	Group string    // "" if it has none
	Since time.Time // when its state began, or for a scheduled one ends; zero if nothing tells
	Now   time.Time // by Redis's clock, when the task was looked at
	score string    // in its sorted set, as Redis prints it
}

// TaskInfo looks up a task; the error is ErrTaskGone if there is none.
func (b *Broker) TaskInfo(ctx context.Context, queue, id string) (*TaskInfo, error) {
	infos, errs := b.TaskInfos(ctx, []TaskName{{queue, id}})
	return infos[0], errs[0]
}

// TaskName names a task among all.
type TaskName struct{ Queue, ID string }

// TaskInfos looks up tasks of any queues, as TaskInfo does, in few round trips.
func (b *Broker) TaskInfos(ctx context.Context, tasks []TaskName) ([]*TaskInfo, []error) {
	infos, errs := make([]*TaskInfo, len(tasks)), make([]error, len(tasks))
	for first := 0; first < len(tasks); first += maxInfos {
		part := tasks[first:min(first+maxInfos, len(tasks))]
		calls := make([]*call, len(part))
		for i, t := range part {
			q := b.queues.get(t.Queue)
			calls[i] = newCall(taskInfoScript, 4+1).key(q.keys.Task(t.ID), q.scheduled, q.retry, q.lease).arg(t.ID)
		}
		b.run(ctx, calls...)
		for i, t := range part {
			infos[first+i], errs[first+i] = t.read(calls[i])
		}
	}
	return infos, errs
}

// maxInfos bounds the tasks that one pipeline looks up.
const maxInfos = 100

func (t TaskName) read(c *call) (*TaskInfo, error) {
	if c.err != nil {
		return nil, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	reply, ok := c.reply.([]any)
	if ok && len(reply) == 0 {
		return nil, ErrTaskGone
	}
	if !ok || len(reply) != 7 {
		return nil, c.malformed()
	}
	info := &TaskInfo{Orphaned: reply[4] == int64(1)}
	name, _ := reply[0].(string)
	msg, _ := reply[1].(string)
	var err error
	if info.State, err = wire.ParseState(name); err != nil {
		return nil, fmt.Errorf("rdb: task %q of queue %q: %w", t.ID, t.Queue, err)
	}
	if info.Message, err = wire.DecodeTaskMessage([]byte(msg)); err != nil {
		return nil, fmt.Errorf("rdb: task %q of queue %q: %w", t.ID, t.Queue, err)
	}
	if result, ok := reply[2].(string); ok {
		info.Result = []byte(result)
	}
	if at, ok := reply[3].(int64); ok && at >= 0 {
		info.ProcessAt = time.Unix(at, 0)
	}
	info.Token, _ = reply[5].(string)
	info.Settled, _ = reply[6].(string)
	return info, nil
}

// Queues lists the names of all queues.
func (b *Broker) Queues(ctx context.Context) ([]string, error) {
	names, err := b.client.SMembers(ctx, b.queues.namespace.Queues()).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: listing queues: %w", err)
	}
	return names, nil
}

// QueueExists reports whether a queue of that name is known.
func (b *Broker) QueueExists(ctx context.Context, queue string) (bool, error) {
	ok, err := b.client.SIsMember(ctx, b.queues.namespace.Queues(), queue).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking up a queue: %w", err)
	}
	return ok, nil
}

// Pause lets no task of a queue be taken; it reports whether that is new.
func (b *Broker) Pause(ctx context.Context, queue string) (bool, error) {
	ok, err := b.client.SetNX(ctx, b.queues.get(queue).keys.Paused(), b.now().Unix(), 0).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: pausing a queue: %w", err)
	}
	return ok, nil
}

// Unpause lets the tasks of a queue be taken again; it reports whether that is new.
func (b *Broker) Unpause(ctx context.Context, queue string) (bool, error) {
	n, err := b.client.Del(ctx, b.queues.get(queue).keys.Paused()).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: resuming a queue: %w", err)
	}
	return n > 0, b.PassMarker(ctx, queue)
}
