// Package inspect reads queues and tasks, and changes tasks that no worker holds: statistics,
// lists, bulk changes, export and import, and the removal of queues.
//
// It starts no goroutines. Every method that reads or changes many tasks splits them into script
// calls of a bounded size.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskInfo is the state of a task.
type TaskInfo struct {
	State     wire.State
	Message   *wire.TaskMessage
	Result    []byte
	ProcessAt time.Time // zero unless scheduled or in retry
	Orphaned  bool      // active without an unexpired lease
	Token     string    // token of the holder; "" if there is none, or it is of another library
	Settled   string    // the token of its last attempt that was settled; "" if none was

	// Not set by lists.
	Attempts []wire.Attempt // failed ones in the log of the task, oldest first
	Progress *wire.Progress // nil: none was reported

	// Set by lists only. They leave Message nil if it cannot be decoded.
	ID    string
	Queue string
	Group string    // "" if it has none
	Since time.Time // when it entered its state, or when a scheduled task is due; zero if unknown
	Held  bool      // scheduled because its partition holds it; Since is when it became pending
	Now   time.Time // when the task was read, by the clock of Redis
	score string    // in its sorted set, as formatted by Redis
}

// TaskInfo returns the state of a task. It returns ErrTaskGone if it does not exist.
func (b *Inspector) TaskInfo(ctx context.Context, queue, id string) (*TaskInfo, error) {
	infos, errs := b.TaskInfos(ctx, []TaskName{{queue, id}})
	return infos[0], errs[0]
}

// TaskName identifies a task.
type TaskName struct{ Queue, ID string }

// TaskInfos returns the states of tasks of any queues in few round trips.
func (b *Inspector) TaskInfos(ctx context.Context, tasks []TaskName) ([]*TaskInfo, []error) {
	infos, errs, calls := make([]*TaskInfo, len(tasks)), make([]error, len(tasks)), make([]*script.Call, len(tasks))
	for i, t := range tasks {
		calls[i] = readCall(b.Queue(t.Queue), t.ID)
	}
	b.runAll(ctx, calls)
	for i, t := range tasks {
		infos[i], errs[i] = t.read(calls[i])
	}
	return infos, errs
}

// read decodes the reply of a call that reads one task.
func (t TaskName) read(c *script.Call) (*TaskInfo, error) {
	r := c.Read()
	now, stored := readTime(&r), readStored(&r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if stored.state == "" {
		return nil, script.ErrTaskGone
	}
	state, err := wire.ParseState(stored.state)
	if err == nil {
		_, err = wire.DecodeTaskMessage(stored.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: task %q of queue %q: %w", t.ID, t.Queue, err)
	}
	return stored.info(t.Queue, state, stored.Group, now), nil
}

// readCall returns the call that reads tasks of a queue, at most 200.
func readCall(q *script.Queue, ids ...string) *script.Call {
	c := script.NewCall(readTasksScript, 5+3+len(ids)).Key(q.Scheduled, q.Retry, q.Archived, q.Completed, q.Lease)
	for _, id := range ids {
		c.Key(q.Keys.Task(id))
	}
	return c.Arg(q.TaskPrefix, q.GroupPrefix, maxScanBytes)
}

// Pause pauses a queue. It reports whether the queue was not paused before.
func (b *Inspector) Pause(ctx context.Context, queue string) (bool, error) {
	ok, err := b.Client().SetNX(ctx, b.Queue(queue).Keys.Paused(), time.Now().Unix(), 0).Result()
	if err != nil {
		return false, fmt.Errorf("inspect: pausing a queue: %w", err)
	}
	return ok, nil
}

// Unpause resumes a queue. It reports whether the queue was paused before.
func (b *Inspector) Unpause(ctx context.Context, queue string) (bool, error) {
	n, err := b.Client().Del(ctx, b.Queue(queue).Keys.Paused()).Result()
	if err != nil {
		return false, fmt.Errorf("inspect: resuming a queue: %w", err)
	}
	return n > 0, b.broker.PassMarker(ctx, queue)
}

// Archived returns the number of tasks in the archive of a queue, and its limits as the servers of
// the queue have published them; the default if they have not.
func (b *Inspector) Archived(ctx context.Context, queue string) (tasks int, limits wire.ArchiveLimits, err error) {
	q := b.Queue(queue)
	pipe := b.Client().Pipeline()
	n, published := pipe.ZCard(ctx, q.Keys.Archived()), pipe.Get(ctx, q.Keys.ArchiveLimits())
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, limits, b.explain(ctx, q, fmt.Errorf("inspect: counting archived tasks: %w", err))
	}
	return int(n.Val()), b.publishedLimits(published.Val()), nil
}

// publishedLimits decodes the limits of an archive, "" if none are published.
func (b *Inspector) publishedLimits(text string) wire.ArchiveLimits {
	if limits, ok := wire.ParseArchiveLimits(text); ok {
		return limits
	}
	return b.Archive
}

// Inspector reads and changes queues and tasks that no worker holds. It is safe for concurrent use.
type Inspector struct {
	*script.Conn
	broker *rdb.Broker
}

// New returns an inspector that shares the broker's connection.
func New(b *rdb.Broker) *Inspector { return &Inspector{Conn: b.Conn, broker: b} }

// maxStates limits the tasks per pipeline of TaskStates.
const maxStates = 500

// TaskStates returns the states of tasks of any queues, with one plain command per task and one
// round trip per 500. The error of a missing task is ErrTaskGone.
func (b *Inspector) TaskStates(ctx context.Context, tasks []TaskName) ([]wire.State, []error) {
	states, errs := make([]wire.State, len(tasks)), make([]error, len(tasks))
	read := func(pipe redis.Pipeliner, t TaskName) *redis.StringCmd {
		return pipe.HGet(ctx, b.Queue(t.Queue).Keys.Task(t.ID), wire.FieldState)
	}
	for i, cmd := range pipelined(ctx, b.Client(), maxStates, tasks, read) {
		states[i], errs[i] = tasks[i].readState(cmd)
	}
	return states, errs
}

// pipelined adds commands for each item, n items to a pipeline, and yields the result of add with
// the index of the item after the pipeline was sent. The errors are those of the commands.
func pipelined[T, C any](
	ctx context.Context, client redis.UniversalClient, n int, items []T, add func(pipe redis.Pipeliner, item T) C,
) iter.Seq2[int, C] {
	return func(yield func(int, C) bool) {
		for first := 0; first < len(items); first += n {
			page := items[first:min(first+n, len(items))]
			cmds := make([]C, len(page))
			_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
				for i, item := range page {
					cmds[i] = add(pipe, item)
				}
				return nil
			})
			for i, cmd := range cmds {
				if !yield(first+i, cmd) {
					return
				}
			}
		}
	}
}

func (t TaskName) readState(cmd *redis.StringCmd) (wire.State, error) {
	name, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return 0, script.ErrTaskGone
	}
	if err != nil {
		return 0, fmt.Errorf("inspect: looking up a state: %w", err)
	}
	state, err := wire.ParseState(name)
	if err != nil {
		return 0, fmt.Errorf("inspect: task %q of queue %q: %w", t.ID, t.Queue, err)
	}
	return state, nil
}
