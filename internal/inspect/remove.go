package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq/internal/script"
)

// removeRounds limits how often a removal scans the keys of Redis again because clients enqueue.
const removeRounds = 100

// scanPage is the COUNT of the scans of a removal.
const scanPage = 1000

// RemoveQueue deletes a queue and everything that Redis stores under its name, except for the parts
// of flows, which expire: so flows find that their members were deleted. Without force it
// returns ErrQueueNonempty if there is a task; with force it returns ErrTaskActive, and deletes
// nothing, if one is active.
//
// With force, the first call pauses the queue and deletes its collections, all of them at one
// moment. Then RemoveQueue scans the names of all keys, and deletes those of the queue, until a
// scan finds no task, lock or group. Each call deletes the collections again, and with them the
// tasks that clients have enqueued since; if there are any, another scan deletes what they left.
// The last call deletes the pause. If RemoveQueue fails in between, the queue remains paused, and
// RemoveQueue must be called again.
//
// The name is removed last, and added again if there are tasks by then. A client that enqueues
// later adds it itself within a second (Broker.created).
func (b *Inspector) RemoveQueue(ctx context.Context, queue string, force bool) error {
	r := &removal{Inspector: b, queue: b.Queue(queue), force: force}
	err := r.remove(ctx)
	if err != nil && force && r.begun {
		return fmt.Errorf("%w; the queue is paused and partly deleted: delete it again", err)
	}
	return err
}

// removal is the removal of a queue.
type removal struct {
	*Inspector
	queue *script.Queue
	force bool
	begun bool // something was deleted
}

func (r *removal) remove(ctx context.Context) error {
	for more := !r.force; more; { // else its tasks would count
		var err error
		if more, err = r.broker.PurgeConsumed(ctx, r.queue.Keys.Name); err != nil {
			return err
		}
	}
	for range removeRounds {
		clean, err := r.sweep(ctx)
		if err == nil && clean {
			clean, err = r.delete(ctx, []string{r.queue.Keys.Paused()})
		}
		if err != nil {
			return err
		}
		if clean {
			return r.unregister(ctx)
		}
	}
	return fmt.Errorf("inspect: clients keep enqueueing: %w", script.ErrQueueNonempty)
}

// sweep deletes all keys of the queue but its pause. It reports whether none was of a task, and no
// client enqueued one meanwhile.
func (r *removal) sweep(ctx context.Context) (clean bool, err error) {
	// Without its counter the queue does not exist for add_stats.lua: no server writes statistics
	// that the scan would miss.
	if _, err := r.delete(ctx, []string{r.queue.Keys.Processed()}); err != nil {
		return false, err
	}
	node, err := r.Master(ctx, r.queue.Keys.Pending())
	if err != nil {
		return false, fmt.Errorf("inspect: looking for the queue's shard: %w", err)
	}
	k := r.queue.Keys
	clean = true
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, script.EscapeGlob(k.Prefix())+"*", scanPage).Result()
		if err != nil {
			return false, fmt.Errorf("inspect: listing keys: %w", err)
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == k.Paused() || strings.HasPrefix(key, k.FlowPrefix()) })
		for page := range slices.Chunk(keys, script.MaxBatch) {
			none, err := r.delete(ctx, page)
			if err != nil {
				return false, err
			}
			clean = clean && none && !slices.ContainsFunc(page, func(key string) bool {
				return strings.HasPrefix(key, k.TaskPrefix()) || strings.HasPrefix(key, k.UniquePrefix()) || strings.HasPrefix(key, k.GroupPrefix())
			})
		}
		if next == 0 {
			return clean, nil
		}
		cursor = next
	}
}

// delete deletes keys of the queue, with force also its collections. It reports whether there were
// none.
func (r *removal) delete(ctx context.Context, keys []string) (none bool, err error) {
	group := func(key string) bool { return strings.HasPrefix(key, r.queue.Keys.GroupPrefix()) }
	if !r.force && slices.ContainsFunc(keys, group) { // it has lost its name
		return false, script.ErrQueueNonempty
	}
	c := script.NewCall(removeQueueScript, 10+len(keys)).Key(r.queue.Active, r.queue.Paused)
	for _, key := range slices.Concat(r.collections(), keys) {
		c.Key(key)
	}
	r.Run(ctx, c.Arg(script.Flag(r.force)))
	reply := c.Read()
	code := reply.Code()
	switch {
	case reply.Err() != nil:
		return false, reply.Err()
	case !r.force && code != script.CodeOK:
		return false, script.ErrQueueNonempty
	case code == script.CodeActive:
		return false, script.ErrTaskActive
	}
	r.begun = true
	return code == script.CodeOK, nil
}

// collections returns the keys one of which exists if there is a task that is not active.
func (r *removal) collections() []string {
	k := r.queue.Keys
	return []string{k.Pending(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(), k.AggregationSets()}
}

// unregister removes the name of the queue from the set of queues, and adds it again if tasks have
// arrived meanwhile.
func (r *removal) unregister(ctx context.Context) error {
	names, name := r.Namespace().Queues(), r.queue.Keys.Name
	if err := r.Client().SRem(ctx, names, name).Err(); err != nil {
		return fmt.Errorf("inspect: removing a queue's name: %w", err)
	}
	r.queue.Registered.Store(0)
	filled, err := r.AnyExists(ctx, append(r.collections(), r.queue.Keys.Active())...)
	if err != nil || !filled {
		return err
	}
	return r.RegisterQueues(ctx, []string{name})
}
