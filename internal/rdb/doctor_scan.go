package rdb

import (
	"context"
	"crypto/sha1" //nolint:gosec // The scripts compare messages by the one digest that Redis has.
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

const (
	// scanCount is how many keys Redis looks at in one step of a SCAN.
	scanCount = 500

	// deferLimit is how many tasks may wait to be searched in pending together.
	deferLimit = 10_000
)

// scan judges the keys of tasks, locks and groups, for which no collection has their names.
func (d *doctor) scan(ctx context.Context, only []string) error {
	pattern := string(d.b.queues.namespace) + ":{"
	if len(only) == 1 {
		pattern += only[0] + "}:"
	}
	nodes, err := masters(ctx, d.b.client)
	if err != nil {
		return fmt.Errorf("rdb: finding the nodes: %w", err)
	}
	for _, node := range nodes {
		if err := d.scanNode(ctx, node, escapeGlob(pattern)+"*"); err != nil {
			return err
		}
	}
	return nil
}

// masters returns what to scan: the client itself, or every master of a Cluster.
func masters(ctx context.Context, client redis.UniversalClient) ([]redis.Cmdable, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{client}, nil
	}
	var mu sync.Mutex // ForEachMaster runs the function for all masters at once
	var nodes []redis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return nodes, err
}

// scanNode judges the keys on one node. One that does not answer ends only its own part.
func (d *doctor) scanNode(ctx context.Context, node redis.Cmdable, pattern string) error {
	prefix := string(d.b.queues.namespace) + ":{"
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !d.yield(nil, fmt.Errorf("rdb: scanning the keys: %w", err)) {
				return errDoctorStopped
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
			if err := d.tolerate(ctx, q, d.checkScanned(ctx, q, keys)); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// checkScanned judges keys of a queue.
func (d *doctor) checkScanned(ctx context.Context, q *doctorQueue, keys []string) error {
	var ids, locks []string
	for _, key := range keys {
		k, known := kindOf(q.keys, key)
		id, task := strings.CutPrefix(key, q.keys.TaskPrefix())
		group := strings.HasPrefix(key, q.keys.GroupPrefix())
		if task || group || known && k.state != 0 {
			q.sample = key
		}
		switch {
		case task:
			ids = append(ids, id)
		case group:
			if err := d.checkGroup(ctx, q, key); err != nil {
				return err
			}
		case strings.HasPrefix(key, lockPrefix(q.keys)):
			locks = append(locks, key)
		}
	}
	for page := range slices.Chunk(ids, doctorPage) {
		if err := d.checkTasks(ctx, q, page); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(locks, doctorPage) {
		if err := d.checkLocks(ctx, q, page); err != nil {
			return err
		}
	}
	if len(q.deferred) >= deferLimit {
		return d.resolve(ctx, q)
	}
	return nil
}

// seenTask is what plain reads tell of a task, at slightly different moments.
type seenTask struct {
	suspect
	size    int64 // of the message
	message string
	there   bool // in the sorted set of its state; of an active task: there is a lease
}

// checkTasks judges tasks that a SCAN found.
func (d *doctor) checkTasks(ctx context.Context, q *doctorQueue, ids []string) error {
	tasks, err := d.readTasks(ctx, q, ids)
	if err != nil {
		return err
	}
	// The messages are read so many at a time as fit into a megabyte.
	for len(tasks) > 0 {
		n, bytes := 0, int64(0)
		for n < len(tasks) && (n == 0 || bytes+tasks[n].size <= maxBatchBytes) {
			bytes += tasks[n].size
			n++
		}
		if err := d.readPlaces(ctx, q, tasks[:n]); err != nil {
			return err
		}
		var suspects []suspect
		for i := range tasks[:n] {
			switch t := &tasks[i]; q.suspicion(t) {
			case suspected:
				t.since = "" // the script searches pending itself
				suspects = append(suspects, t.suspect)
			case suspectedPending:
				q.deferred = append(q.deferred, t.suspect)
			}
			tasks[i].message = ""
		}
		listed := int64(len(q.activeIDs.hashes))
		if slices.ContainsFunc(suspects, func(s suspect) bool { return s.state != wire.StateActive.String() && mayBePending(s.state) }) {
			listed += int64(len(q.pendingIDs.hashes))
		}
		if err := d.confirm(ctx, q, suspects, listed); err != nil {
			return err
		}
		tasks = tasks[n:]
	}
	return nil
}

// mayBePending reports whether the script searches pending for a task in that state.
func mayBePending(state string) bool {
	s, err := wire.ParseState(state)
	return err != nil || s == wire.StatePending
}

// readTasks reads all of the tasks but their messages.
func (d *doctor) readTasks(ctx context.Context, q *doctorQueue, ids []string) ([]seenTask, error) {
	fields := make([]*redis.SliceCmd, len(ids))
	sizes := make([]*redis.IntCmd, len(ids))
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			key := q.keys.Task(id)
			fields[i] = pipe.HMGet(ctx, key, wire.FieldState, wire.FieldGroup, wire.FieldPendingSince)
			sizes[i] = pipe.HStrLen(ctx, key, wire.FieldMessage)
		}
		return nil
	})
	if ignoreRefused(err) != nil {
		return nil, fmt.Errorf("rdb: reading tasks: %w", err)
	}
	tasks := make([]seenTask, len(ids))
	for i, id := range ids {
		t := &tasks[i]
		t.id, t.size = id, sizes[i].Val()
		if err := fields[i].Err(); ignoreRefused(err) != nil {
			return nil, fmt.Errorf("rdb: reading a task: %w", err)
		} else if err == nil {
			f := fields[i].Val()
			t.state, _ = f[0].(string)
			t.group, _ = f[1].(string)
			t.since, _ = f[2].(string)
		}
	}
	return tasks, nil
}

// readPlaces reads the messages of the tasks, and whether the sorted sets of their states have them.
func (d *doctor) readPlaces(ctx context.Context, q *doctorQueue, tasks []seenTask) error {
	messages := make([]*redis.StringCmd, len(tasks))
	scores := make([]*redis.FloatCmd, len(tasks))
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range tasks {
			t := &tasks[i]
			messages[i] = pipe.HGet(ctx, q.keys.Task(t.id), wire.FieldMessage)
			state, _ := wire.ParseState(t.state)
			key := zsetOf(q.keys, state)
			switch state {
			case wire.StateActive:
				key = q.keys.Lease()
			case wire.StateAggregating:
				key = q.keys.Group(t.group)
			}
			if key != "" {
				scores[i] = pipe.ZScore(ctx, key, t.id)
			}
		}
		return nil
	})
	if ignoreRefused(err) != nil {
		return fmt.Errorf("rdb: reading tasks: %w", err)
	}
	for i := range tasks {
		t := &tasks[i]
		if err := ignoreRefused(messages[i].Err()); err != nil {
			return fmt.Errorf("rdb: reading a message: %w", err)
		}
		t.message = messages[i].Val()
		if scores[i] == nil {
			continue
		}
		if err := ignoreRefused(scores[i].Err()); err != nil {
			return fmt.Errorf("rdb: reading a score: %w", err)
		}
		t.there = scores[i].Err() == nil
	}
	return nil
}

type suspicion int

const (
	unsuspected suspicion = iota
	suspected
	suspectedPending // that pending does not hold it
)

// suspicion tells whether a task seems to be broken, and notes what a script must know to judge it.
func (q *doctorQueue) suspicion(t *seenTask) suspicion {
	msg, err := wire.DecodeTaskMessage([]byte(t.message))
	if err == nil && msg.ID != t.id {
		err = fmt.Errorf("the message is that of task %q", msg.ID)
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
			return unsuspected // if it cannot be read, its worker archives it, or the recoverer
		}
	case state == wire.StateArchived:
		if t.there {
			return unsuspected // that is where what cannot be read belongs
		}
		if err == nil && msg.LastFailedAt > 0 {
			t.score = strconv.FormatInt(msg.LastFailedAt, 10)
		}
	case state == wire.StateCompleted:
		if t.there {
			return unsuspected // it is over, and goes with its retention
		}
		if err == nil && msg.CompletedAt > 0 {
			t.score = strconv.FormatInt(msg.CompletedAt+msg.Retention, 10)
		}
	case t.there && err == nil:
		return unsuspected
	}
	return suspected
}
