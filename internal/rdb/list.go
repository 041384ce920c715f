package rdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// maxLook bounds the tasks that a listing looks at in one script call, maxLookBytes what it returns: so long Redis serves nobody else.
const (
	maxLook      = 200
	maxLookBytes = 1 << 20
)

// How a script is to read the collection of a state.
const (
	readList    = "list"
	readRising  = "rising"
	readFalling = "falling"
)

// collection returns the key of the tasks in a state, and how it is read.
func (q *queue) collection(state wire.State, group string) (key, way string, err error) {
	switch state {
	case wire.StatePending, wire.StateActive:
		way = readList
	case wire.StateScheduled, wire.StateRetry, wire.StateAggregating:
		way = readRising
	case wire.StateArchived, wire.StateCompleted:
		way = readFalling
	default:
		return "", "", fmt.Errorf("rdb: %d is not a task state", int(state))
	}
	return collectionOf(q.keys, state, group), way, nil
}

// ListTasks lists tasks of a queue in one state, in that of a group where the state is aggregating, without those that are staged.
// It passes over offset entries of the collection and looks at limit. What is not there, or in another state, is left out: there
// may be fewer. Tasks whose message cannot be read have none.
//
// Pending and active tasks come in the order in which they are taken, or were; scheduled, retry and aggregating ones by their time;
// archived and completed ones by their time, the latest first. 200 tasks are from one moment.
func (b *Broker) ListTasks(ctx context.Context, queue string, state wire.State, group string, offset, limit int) ([]*TaskInfo, error) {
	q := b.queues.get(queue)
	key, way, err := q.collection(state, group)
	if err != nil {
		return nil, err
	}
	var tasks []*TaskInfo
	for limit > 0 {
		c := newCall(listTasksScript, 2+6).key(key, q.lease).
			arg(q.taskPrefix, state.String(), way, offset, min(limit, maxLook), maxLookBytes)
		b.run(ctx, c)
		page, err := c.tasks(q, state, group)
		if err != nil {
			return nil, b.explain(ctx, q, err, key)
		}
		tasks = append(tasks, page.tasks...)
		if page.end {
			break
		}
		offset, limit = offset+page.looked, limit-page.looked
	}
	return tasks, nil
}

// taskPage is the answer of a script that lists tasks.
type taskPage struct {
	tasks  []*TaskInfo
	looked int  // entries, among them those that are no tasks of the state
	end    bool // no entries come after these

	lastID, lastScore string // of the last entry
}

const lookValues = 6 // of each entry

// tasks reads the answer of a script that lists tasks of a state. The group is that of tasks whose hash does not name one.
func (c *call) tasks(q *queue, state wire.State, group string) (*taskPage, error) {
	if c.err != nil {
		return nil, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply) < 2 || (len(reply)-2)%lookValues != 0 {
		return nil, c.malformed()
	}
	end, _ := reply[0].(int64)
	now, err := nanoseconds(reply[1])
	if err != nil {
		return nil, c.malformed()
	}
	page := &taskPage{end: end == 1, looked: (len(reply) - 2) / lookValues}
	page.tasks = make([]*TaskInfo, 0, page.looked)
	for entry := reply[2:]; len(entry) > 0; entry = entry[lookValues:] {
		page.lastID, _ = entry[0].(string)
		page.lastScore, _ = entry[1].(string)
		msg, ok := entry[2].(string)
		if !ok {
			continue
		}
		t := &TaskInfo{ID: page.lastID, score: page.lastScore, Queue: q.keys.Name, State: state, Now: now, Orphaned: entry[1] == int64(1)}
		if m, err := wire.DecodeTaskMessage([]byte(msg)); err == nil && msg != "" {
			t.Message = m
		}
		if result, ok := entry[3].(string); ok {
			t.Result = []byte(result)
		}
		if t.Group, ok = entry[5].(string); !ok && state == wire.StateAggregating {
			t.Group = group
		}
		t.tell(page.lastScore, entry[4])
		page.tasks = append(page.tasks, t)
	}
	return page, nil
}

// tell fills in the times of a task, given its score and its pending_since, each only where it has one.
func (t *TaskInfo) tell(score string, pendingSince any) {
	var at time.Time
	if s, err := strconv.ParseFloat(score, 64); err == nil {
		at = unixTime(s)
	}
	switch t.State {
	case wire.StatePending:
		t.Since, _ = nanoseconds(pendingSince) // zero where it has none
	case wire.StateScheduled:
		t.ProcessAt, t.Since = at, at
	case wire.StateRetry:
		t.ProcessAt = at
		if t.Message != nil && t.Message.LastFailedAt != 0 {
			t.Since = time.Unix(t.Message.LastFailedAt, 0)
		}
	case wire.StateArchived, wire.StateAggregating:
		t.Since = at
	case wire.StateCompleted:
		if t.Message != nil && t.Message.CompletedAt != 0 {
			t.Since = time.Unix(t.Message.CompletedAt, 0)
		}
	case wire.StateActive: // Redis does not know when it began
	}
}

// unixTime reads a score. Infinity is none; what no time can hold otherwise is the last one that can be, or the first.
func unixTime(seconds float64) time.Time {
	const most = 1<<63 - 1<<36 // a little less than what time.Unix can hold
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return time.Time{}
	}
	seconds = min(max(seconds, -most), most)
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9))
}

// nanoseconds reads a time that travels as a decimal string.
func nanoseconds(v any) (time.Time, error) {
	text, _ := v.(string)
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, ns), nil
}

// ErrWrongType says that a key of a queue is of another type than it must be.
var ErrWrongType = errors.New("something other than asynq has written this key; look at it, and rename or delete it")

// explain looks for the key on whose type a call has failed, and names it: one of the queue's own, or of the keys.
func (b *Broker) explain(ctx context.Context, q *queue, err error, keys ...string) error {
	if !Refused(err) {
		return err
	}
	k := q.keys
	keys = append(keys, k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(),
		k.AggregationSets(), k.Processed(), k.Failed(), k.ProcessedOn(b.now()), k.FailedOn(b.now()))
	types := make([]*redis.StatusCmd, len(keys))
	_, _ = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // where it fails, the first error is all there is to tell
		for i, key := range keys {
			types[i] = pipe.Type(ctx, key)
		}
		return nil
	})
	for i, key := range keys {
		want, _ := kindOf(k, key)
		if is := types[i].Val(); is != "" && is != "none" && is != want.typ {
			return fmt.Errorf("rdb: the key %s is a %s and must be a %s: %w (%w)", key, is, want.typ, ErrWrongType, err)
		}
	}
	return err
}
