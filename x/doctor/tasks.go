package doctor

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

//nolint:gosec // The scripts compare messages by the one digest that Redis has.

const (
	// scanCount is the COUNT of a SCAN.
	scanCount = 500

	// deferLimit is the number of tasks that may wait for one search in pending.
	deferLimit = 10_000
)

// scan checks the keys of tasks, locks and groups, which it finds by SCAN.
func (d *diagnosis) scan(ctx context.Context, only []string) error {
	pattern := string(d.conn.Namespace()) + ":{"
	if len(only) == 1 {
		pattern += only[0] + "}:"
	}
	nodes, err := d.conn.Masters(ctx)
	if err != nil {
		return fmt.Errorf("finding the nodes: %w", err)
	}
	for _, node := range nodes {
		if err := d.scanNode(ctx, node, script.EscapeGlob(pattern)+"*"); err != nil {
			return err
		}
	}
	return nil
}

// scanNode checks the keys of one node. An error of a node does not affect the others.
func (d *diagnosis) scanNode(ctx context.Context, node redis.Cmdable, pattern string) error {
	prefix := string(d.conn.Namespace()) + ":{"
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !d.yieldError(fmt.Errorf("scanning the keys: %w", err)) {
				return errStopped
			}
			return nil
		}
		queues := make(map[string][]string)
		for _, key := range keys {
			if queue, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "}:"); ok && d.keep(queue) {
				queues[queue] = append(queues[queue], key)
			}
		}
		for name, keys := range queues {
			q, err := d.open(ctx, name, false)
			if err != nil {
				return err
			}
			if q.failed {
				continue
			}
			if err := d.reportError(ctx, q, d.checkScanned(ctx, q, keys)); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// checkScanned checks keys of a queue.
func (d *diagnosis) checkScanned(ctx context.Context, q *queue, keys []string) error {
	var ids, locks, members []string
	for _, key := range keys {
		k, known := wire.KeyTypeOf(q.Keys, key)
		id, task := strings.CutPrefix(key, q.Keys.TaskPrefix())
		group := strings.HasPrefix(key, q.Keys.GroupPrefix())
		if task || group || known && k.State != 0 {
			q.sample = key
		}
		switch {
		case task:
			ids = append(ids, id)
		case group:
			if err := d.checkGroup(ctx, q, key); err != nil {
				return err
			}
		case strings.HasPrefix(key, q.Keys.UniquePrefix()):
			locks = append(locks, key)
		case strings.HasPrefix(key, q.Keys.FlowPrefix()):
			members = append(members, key)
		}
	}
	for page := range slices.Chunk(ids, pageSize) {
		if err := d.checkTasks(ctx, q, page); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(locks, pageSize) {
		if err := d.checkLocks(ctx, q, page); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(members, pageSize) {
		if err := d.checkMembers(ctx, q, page); err != nil {
			return err
		}
	}
	if len(q.deferred) >= deferLimit {
		return d.resolve(ctx, q)
	}
	return nil
}

// task is a task as plain reads return it, at slightly different moments.
type task struct {
	id, state, group string
	since            string // pending_since; or "" so that the script searches pending
	size             int64  // of the message
	message          string
	held             string // place in its partition, without the ID; empty if it is not held
	placeless        bool   // its partition lacks the place
	there            bool   // in the sorted set of its state; of an active task: there is a lease

	unreadable string // SHA-1 of the message if it cannot be decoded
	why        string // the decoding error
	score      string // score in archived or completed
}

// checkTasks checks tasks that a SCAN found.
func (d *diagnosis) checkTasks(ctx context.Context, q *queue, ids []string) error {
	tasks, err := d.readTasks(ctx, q, ids)
	if err != nil {
		return err
	}
	// Read as many messages at a time as fit into a megabyte.
	for len(tasks) > 0 {
		n, bytes := 0, int64(0)
		for n < len(tasks) && (n == 0 || bytes+tasks[n].size <= script.MaxBatchBytes) {
			bytes += tasks[n].size
			n++
		}
		if err := d.readPlaces(ctx, q, tasks[:n]); err != nil {
			return err
		}
		var suspects []task
		var placeless []suspect
		for _, t := range tasks[:n] {
			suspicion := q.suspicion(&t)
			t.message = ""
			if t.placeless && suspicion == unsuspected {
				placeless = append(placeless, suspect{id: t.id})
			}
			switch suspicion {
			case suspected:
				t.since = "" // the script searches pending itself
				suspects = append(suspects, t)
			case suspectedPending:
				q.deferred = append(q.deferred, t)
			}
		}
		if err := d.confirmTasks(ctx, q, suspects); err != nil {
			return err
		}
		if err := d.confirmPartitions(ctx, q, placeless); err != nil {
			return err
		}
		tasks = tasks[n:]
	}
	return nil
}

// readTasks reads the tasks without their messages.
func (d *diagnosis) readTasks(ctx context.Context, q *queue, ids []string) ([]task, error) {
	fields := make([]*redis.SliceCmd, len(ids))
	sizes := make([]*redis.IntCmd, len(ids))
	err := d.read(ctx, "tasks", func(pipe redis.Pipeliner) {
		for i, id := range ids {
			key := q.Keys.Task(id)
			fields[i] = pipe.HMGet(ctx, key, wire.FieldState, wire.FieldGroup, wire.FieldPendingSince, wire.FieldHeld)
			sizes[i] = pipe.HStrLen(ctx, key, wire.FieldMessage)
		}
	})
	if err != nil {
		return nil, err
	}
	tasks := make([]task, len(ids))
	for i, id := range ids {
		t := &tasks[i]
		t.id, t.size = id, sizes[i].Val()
		if f := fields[i].Val(); len(f) == 4 {
			t.state, _ = f[0].(string)
			t.group, _ = f[1].(string)
			t.since, _ = f[2].(string)
			t.held, _ = f[3].(string)
		}
	}
	return tasks, nil
}

// readPlaces reads the messages of the tasks, and whether the sorted sets of their states contain
// them.
func (d *diagnosis) readPlaces(ctx context.Context, q *queue, tasks []task) error {
	messages := make([]*redis.StringCmd, len(tasks))
	scores, places := make([]*redis.FloatCmd, len(tasks)), make([]*redis.FloatCmd, len(tasks))
	err := d.read(ctx, "tasks", func(pipe redis.Pipeliner) {
		for i, t := range tasks {
			messages[i] = pipe.HGet(ctx, q.Keys.Task(t.id), wire.FieldMessage)
			state, err := wire.ParseState(t.state)
			if err != nil || state == wire.StatePending {
				continue
			}
			key := q.Keys.Lease()
			if state != wire.StateActive {
				key = wire.CollectionKey(q.Keys, state, t.group)
			}
			scores[i] = pipe.ZScore(ctx, key, t.id)
			if state == wire.StateScheduled && t.held != "" {
				places[i] = pipe.ZScore(ctx, q.Keys.HeldTasks(), t.held+t.id)
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range tasks {
		tasks[i].message = messages[i].Val()
		tasks[i].there = scores[i] != nil && scores[i].Err() == nil
		tasks[i].placeless = places[i] != nil && errors.Is(places[i].Err(), redis.Nil)
	}
	return nil
}

type suspicion int

const (
	unsuspected suspicion = iota
	suspected
	suspectedPending // pending seems to lack it
)

// suspicion returns whether a task seems to be broken, and sets the fields that the script needs to
// confirm it.
func (q *queue) suspicion(t *task) suspicion {
	msg, err := wire.DecodeTaskMessage([]byte(t.message))
	if err == nil && msg.ID != t.id {
		err = fmt.Errorf("the message belongs to task %q", msg.ID)
	}
	if err != nil {
		sum := sha1.Sum([]byte(t.message)) //nolint:gosec // See the import.
		t.unreadable, t.why = hex.EncodeToString(sum[:]), fmt.Sprintf("its message cannot be read: %.200v", err)
	}
	state, noState := wire.ParseState(t.state)
	switch {
	case noState != nil:
		return suspected
	case state == wire.StatePending:
		if err != nil {
			return suspected
		}
		if q.pendingIDs.has(t.id) {
			return unsuspected
		}
		return suspectedPending
	case state == wire.StateActive:
		if t.there && q.activeIDs.has(t.id) {
			return unsuspected // if it cannot be decoded, its worker or the recoverer archives it
		}
	case state == wire.StateArchived:
		if t.there {
			return unsuspected // unreadable tasks belong there
		}
		if err == nil && msg.LastFailedAt > 0 {
			t.score = strconv.FormatInt(msg.LastFailedAt, 10)
		}
	case state == wire.StateCompleted:
		if t.there {
			return unsuspected // it expires with its retention
		}
		if err == nil && msg.CompletedAt > 0 {
			t.score = strconv.FormatInt(msg.CompletedAt+msg.Retention, 10)
		}
	case t.there && err == nil:
		return unsuspected
	}
	return suspected
}

// resolve checks tasks in pending state that were not in pending when it was read. Most were
// enqueued since, or are gone. The script searches a short list. A long list is read once more for
// all of them: a task with the same pending_since before and after must have been in it during the
// whole walk.
func (d *diagnosis) resolve(ctx context.Context, q *queue) error {
	suspects := q.deferred
	q.deferred = nil
	if len(suspects) == 0 || q.failed {
		return nil
	}
	n, err := d.conn.Client().LLen(ctx, q.Keys.Pending()).Result()
	if script.Refused(err) {
		return nil // of another type, which was reported
	}
	if err != nil {
		return fmt.Errorf("length of a list: %w", err)
	}
	q.pendingLen = int(n)
	absent := false
	for try := 0; q.pendingLen > d.maxSearch && len(suspects) > 0 && !absent && try < 3; try++ {
		seen := make(map[string]struct{})
		for _, s := range suspects {
			seen[s.id] = struct{}{}
		}
		absent, err = d.walk(ctx, q.Keys.Pending(), func(_ int, ids []string) (int, error) {
			for _, id := range ids {
				delete(seen, id)
			}
			return 0, nil
		})
		if err != nil {
			return err
		}
		suspects = slices.DeleteFunc(suspects, func(s task) bool { return !hasKey(seen, s.id) })
	}
	if !absent {
		for i := range suspects {
			suspects[i].since = ""
		}
	}
	return d.confirmTasks(ctx, q, suspects)
}

// searched returns how many list entries the script may have to search for a task.
func (q *queue) searched(t task) int {
	state, err := wire.ParseState(t.state)
	n := 0
	if err != nil || state == wire.StateActive {
		n += len(q.activeIDs.hashes)
	}
	if err != nil || state == wire.StatePending && t.since == "" {
		n += q.pendingLen
	}
	return n
}

// confirmTasks checks suspects again and reports those that are broken.
func (d *diagnosis) confirmTasks(ctx context.Context, q *queue, suspects []task) error {
	for len(suspects) > 0 {
		n, search := 1, q.searched(suspects[0])
		for ; n < min(len(suspects), maxConfirm); n++ {
			if search += q.searched(suspects[n]); search > d.maxSearch {
				break
			}
		}
		part := suspects[:n]
		suspects = suspects[n:]
		c := script.NewCall(diagnoseTasksScript, 15+6*n).Key(q.Pending, q.Active, q.Lease, q.Scheduled, q.Retry,
			q.Archived, q.Completed, q.Groups, q.AggregationSets, q.ConsumedSets, q.GroupsDue, q.Marker)
		for _, s := range part {
			c.Key(q.Keys.Task(s.id))
		}
		c.Arg(script.Flag(d.repair), q.GroupPrefix, script.Seconds(leaseDuration))
		for _, s := range part {
			c.Arg(s.id, s.state, s.unreadable, s.score, s.since)
		}
		results, err := d.send(ctx, c, n)
		if err != nil {
			return err
		}
		for i, r := range results {
			if err := d.reportTask(q, part[i], r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *diagnosis) reportTask(q *queue, s task, r result) error {
	f := r.describe(q.Keys.Task(s.id), s.id)
	if f == nil {
		return nil
	}
	switch r.finding {
	case "orphan":
		f.Detail, f.Repair = fmt.Sprintf(f.Detail, s.state), repairTarget(s)
	case "unleased":
		f.Key = q.Keys.Lease()
	case "unreadable":
		f.Detail = s.why
	case "stateless":
		f.Detail = fmt.Sprintf(f.Detail, s.state)
	}
	return d.report(q, f)
}

// repairTarget describes where a repair moves a task that was in no collection.
func repairTarget(s task) string {
	if s.unreadable != "" {
		return "archive it: its message cannot be read"
	}
	switch s.state {
	case wire.StateActive.String():
		return "make it active with a lease; it is recovered when the lease expires"
	case wire.StateAggregating.String():
		if s.group == "" {
			return "move it to pending: it has no group"
		}
		return "return it to its group"
	case wire.StateScheduled.String(), wire.StateRetry.String():
		return "return it to " + s.state + ", due now"
	default:
		return "return it to " + s.state
	}
}
