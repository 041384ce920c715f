package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// maxScan is the number of entries that one script call scans, maxScanBytes the
// size of its reply, because a script blocks Redis.
const (
	maxScan      = 200
	maxScanBytes = 1 << 20
)

// The order in which a script scans a collection.
const (
	readList    = "list"
	readRising  = "rising"
	readFalling = "falling"
)

// listedIn returns the key of the tasks in a state, and the order of its scan.
func listedIn(q *script.Queue, state wire.State, group string) (key, direction string, err error) {
	switch state {
	case wire.StatePending, wire.StateActive:
		direction = readList
	case wire.StateScheduled, wire.StateRetry, wire.StateAggregating:
		direction = readRising
	case wire.StateArchived, wire.StateCompleted:
		direction = readFalling
	default:
		return "", "", fmt.Errorf("inspect: %d is not a task state", int(state))
	}
	return wire.CollectionKey(q.Keys, state, group), direction, nil
}

// ListTasks returns tasks of a queue in one state, and of a group if the state is aggregating,
// without staged tasks. It skips offset entries of the collection and scans limit. It omits entries
// without a task in that state, so there may be fewer. Tasks whose message cannot be decoded have
// none.
//
// Pending and active tasks are in the order of their fetches; all others by time, archived and
// completed tasks newest first if newest is set. 200 tasks are read at one moment.
func (b *Inspector) ListTasks(
	ctx context.Context, queue string, state wire.State, group string, offset, limit int, newest bool,
) ([]*TaskInfo, error) {
	q := b.Queue(queue)
	key, direction, err := listedIn(q, state, group)
	if err != nil {
		return nil, err
	}
	if direction == readFalling && !newest {
		direction = readRising
	}
	var tasks []*TaskInfo
	for limit > 0 {
		c := script.NewCall(listScript, 3+8).Key(key, q.Lease, q.AggregationSets).
			Arg(q.TaskPrefix, direction, offset, "", "", min(limit, maxScan), maxScanBytes, 0)
		page, err := b.readPage(ctx, c, q, state, group)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, page.tasks...)
		if page.end {
			break
		}
		offset, limit = offset+page.scanned, limit-page.scanned
	}
	return tasks, nil
}

// ListAllTasks returns all tasks of a queue in one state, in the order of ListTasks and with the
// guarantee of Walk.
func (b *Inspector) ListAllTasks(
	ctx context.Context, queue string, state wire.State, group string, newest bool,
) (tasks []*TaskInfo, err error) {
	q := b.Queue(queue)
	key, direction, err := listedIn(q, state, group)
	if err != nil {
		return nil, err
	}
	var walk *Walk
	if state == wire.StateAggregating { // without those that are staged
		walk = &Walk{walker: &sortedWalk{b: b, q: q, key: key, direction: direction, state: state, group: group}}
	} else if walk, err = b.Walk(queue, state, "", direction == readFalling && !newest, nil); err != nil {
		return nil, err
	}
	for {
		page, scanned, err := walk.Next(ctx, maxScan)
		if err != nil || scanned == 0 {
			return tasks, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tasks = append(tasks, page...)
	}
}

// taskPage is the reply of list.lua.
type taskPage struct {
	tasks   []*TaskInfo
	scanned int  // entries, including those without a task in the state
	end     bool // no entries come after these

	lastID, lastScore string // of the last entry
}

// readPage runs a call of list.lua for tasks in a state. The group is that of tasks whose hash does
// not name one.
func (b *Inspector) readPage(ctx context.Context, c *script.Call, q *script.Queue, state wire.State, group string) (*taskPage, error) {
	b.Run(ctx, c)
	r := c.Read()
	now := readTime(&r)
	page, name := &taskPage{end: r.Bool()}, state.String()
	for r.More() {
		t := readListed(&r)
		page.scanned++
		page.lastID, page.lastScore = t.ID, t.Score
		if t.state == name {
			page.tasks = append(page.tasks, t.info(q.Keys.Name, state, group, now))
		}
	}
	if err := r.Err(); err != nil {
		return nil, b.explain(ctx, q, err, wire.CollectionKey(q.Keys, state, group))
	}
	return page, nil
}

// info returns the details of a task. The group is that of a task whose hash does not name one.
func (s *reading) info(queue string, state wire.State, group string, now time.Time) *TaskInfo {
	t := &TaskInfo{
		ID: s.ID, Queue: queue, State: state, Result: s.Result, Group: s.Group, Now: now, Orphaned: s.orphaned,
		Token: s.token, Settled: s.settled, score: s.Score,
		Attempts: wire.DecodeAttempts(s.Log), Progress: wire.DecodeProgress(s.progress),
	}
	if len(s.Message) > 0 {
		t.Message, _ = wire.DecodeTaskMessage(s.Message) // nil if it cannot be decoded
	}
	if t.Group == "" && state == wire.StateAggregating {
		t.Group = group
	}
	t.setTimes(s.Score, s.PendingSince)
	return t
}

// setTimes sets the times of a task, given its score and its pending_since, each only where it has
// one.
func (t *TaskInfo) setTimes(score, pendingSince string) {
	var at time.Time
	if s, err := strconv.ParseFloat(score, 64); err == nil {
		at = scoreTime(s)
	}
	switch t.State {
	case wire.StatePending:
		t.Since, _ = nanoseconds(pendingSince) // zero where it has none
	case wire.StateScheduled:
		t.ProcessAt, t.Since = at, at
		if since, err := nanoseconds(pendingSince); err == nil { // only a held task has it
			t.Held, t.ProcessAt, t.Since = true, t.Now, since
		}
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

// scoreTime returns the time of a score in unix seconds, to the microsecond, because a score with a
// fraction is not exact. Infinity is none; a score that no time can hold otherwise is the last one
// that can be, or the first.
func scoreTime(score float64) time.Time {
	const most = 1<<63 - 62135596800 - 1024 // what time.Unix can hold, less the precision of a score
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return time.Time{}
	}
	score = min(max(score, -most), most)
	whole := int64(score)
	return time.Unix(whole, int64(math.Round((score-float64(whole))*1e6))*1e3)
}

// readTime reads a time in nanoseconds.
func readTime(r *script.Reader) time.Time {
	at, err := nanoseconds(r.Text())
	if err != nil {
		r.Fail()
	}
	return at
}

// nanoseconds parses a time that travels as a decimal string.
func nanoseconds(text string) (time.Time, error) {
	ns, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, ns), nil
}

// ErrWrongType says that a key of a queue is of another type than it must be.
var ErrWrongType = errors.New("something other than asynq has written this key; inspect it, and rename or delete it")

// explain looks for the key on whose type a call has failed, and names it: one of the queue's own,
// or of the keys.
func (b *Inspector) explain(ctx context.Context, q *script.Queue, err error, keys ...string) error {
	if !script.Refused(err) {
		return err
	}
	k := q.Keys
	keys = append(keys, k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(),
		k.AggregationSets(), k.Processed(), k.Failed(), k.ProcessedOn(time.Now()), k.FailedOn(time.Now()))
	read := func(pipe redis.Pipeliner, key string) *redis.StatusCmd { return pipe.Type(ctx, key) }
	for i, cmd := range pipelined(ctx, b.Client(), len(keys), keys, read) { // only the first error is reported
		want, _ := wire.KeyTypeOf(k, keys[i])
		if is := cmd.Val(); is != "" && is != "none" && is != want.Type {
			return fmt.Errorf("inspect: the key %s is a %s and must be a %s: %w (%w)", keys[i], is, want.Type, ErrWrongType, err)
		}
	}
	return err
}
