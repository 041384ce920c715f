package rdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// This file has the calls for flows. A node of a flow has a part in each queue of its members, in
// the slot of the queue; the flow itself is in a slot of its own. So no script concerns two slots,
// and internal/flow carries what has happened from the parts to the flow, and tasks from the flow
// to the parts.

// The errors of calls for flows.
var (
	ErrFlowExists  = errors.New("flow exists")
	ErrFlowGone    = errors.New("flow not found")
	ErrFlowChanged = errors.New("flow has changed")
	ErrPartClosed  = errors.New("part is closed")
)

// partCheck is when servers check a part whose members report no end.
const partCheck = 30 * time.Second

// flowTTL is the TTL of flows and parts that have not ended, in seconds.
var flowTTL any = int64(wire.FlowIdle)

// Members are tasks of one queue that become members of a part, at most script.MaxBatch and
// script.MaxBatchBytes.
type Members struct {
	Queue string
	Part  wire.FlowPart
	Tasks []*NewTask // their IDs, messages and times
	Chunk string     // names the tasks of the plan that the call creates; "": they are not of the plan
	Err   error      // of the call; ErrPartClosed
	// Repeated reports that the tasks of the plan were created before.
	Repeated bool

	call *script.Call
}

// CreateMembers creates members, in one pipeline. It sets the errors of calls, and those of tasks
// outside of the plan. A repeated call does nothing.
func (b *Broker) CreateMembers(ctx context.Context, calls ...*Members) {
	now := time.Now()
	sent := make([]*script.Call, len(calls))
	sequences := make([]*script.Sequence, len(calls))
	for i, m := range calls {
		q := b.Queue(m.Queue)
		k := q.Keys
		if _, err := b.register(ctx, q, now.UnixNano()); err != nil {
			m.Err = err
		}
		var record, number any = k.FlowPart(m.Part), ""
		if m.Chunk == "" {
			sequences[i] = q.AcquireSequence()
			sequences[i].Next(now)
			record, number = sequences[i].Record, sequences[i].Number
		}
		c := script.NewCall(createMembersScript, 7+6+3*len(m.Tasks)).
			Key(q.Pending, q.Marker, q.Scheduled, k.FlowPart(m.Part), k.FlowOpen(m.Part), k.FlowsDue(), record)
		c.Queue = q
		for _, t := range m.Tasks {
			c.Key(k.Task(t.ID))
		}
		c.Arg(number, q.TaskPrefixLen, m.Part.String(), "c:"+m.Chunk, flowTTL, partCheck.Milliseconds())
		for _, t := range m.Tasks {
			c.Arg(t.Message, b.Due(t.ProcessAt, t.Early))
		}
		m.call, sent[i] = c, c
	}
	if b.RetryBudget == 0 {
		b.Run(ctx, sent...)
	} else {
		b.RunRetrying(ctx, b.RetryBudget, sent)
	}
	for i, m := range calls {
		if sequences[i] != nil {
			b.Queue(m.Queue).ReleaseSequence(ctx, sequences[i])
		}
		m.read()
		if m.Err == nil {
			b.created(b.Queue(m.Queue), now.UnixNano())
		}
	}
}

func (m *Members) read() {
	m.Err, m.Repeated = nil, false
	r := m.call.ReadCodes(len(m.Tasks))
	if m.Err = r.Err(); m.Err != nil {
		return
	}
	for _, t := range m.Tasks {
		switch code := r.Code(); code {
		case script.CodeStale:
			m.Err = ErrPartClosed
		case script.CodeAlready:
			m.Repeated = true
		default:
			t.Err = code.Err()
		}
	}
}

// PartState is a part as it was read.
type PartState struct {
	Queue   string
	Part    wire.FlowPart
	Compare Compare

	Exists                                    bool
	Version                                   int64
	Made, Planned, Succeeded, Failed, Deleted int64
	Open                                      int64
	Closed                                    bool
	Err                                       error
}

// Compare is whether ReadParts compares the members of a part with their tasks; see read_part.lua.
type Compare string

// The values of Compare.
const (
	CompareNone Compare = ""
	CompareDue  Compare = "due" // if the part has not changed for long
	CompareAll  Compare = "0"
)

// ReadParts reads parts in one pipeline; those to compare with their tasks, page by page.
func (b *Broker) ReadParts(ctx context.Context, parts ...*PartState) {
	cursors := make([]string, len(parts))
	for i, p := range parts {
		cursors[i] = string(p.Compare)
	}
	for left := parts; len(left) > 0; {
		calls := make([]*script.Call, len(left))
		for i, p := range left {
			k := b.Keys(p.Queue)
			calls[i] = script.NewCall(readPartScript, 3+3).
				Key(k.FlowPart(p.Part), k.FlowOpen(p.Part), k.FlowFailed(p.Part)).
				Arg(k.TaskPrefix(), cursors[i], flowTTL)
		}
		b.Run(ctx, calls...)
		var next []*PartState
		var at []string
		for i, p := range left {
			r := calls[i].Read()
			p.Exists, p.Version = r.Bool(), r.Int()
			p.Made, p.Planned, p.Succeeded, p.Failed, p.Deleted = r.Int(), r.Int(), r.Int(), r.Int(), r.Int()
			p.Open, p.Closed = r.Int(), r.Bool()
			cursor := r.Text()
			if p.Err = r.Err(); p.Err == nil && cursor != "0" && ctx.Err() == nil {
				next, at = append(next, p), append(at, cursor)
			}
		}
		left, cursors = next, at
	}
}

// partCall returns a call that changes a part.
func (b *Broker) partCall(queue string, part wire.FlowPart, action string, version int64, wait time.Duration, ttl int64) *script.Call {
	k := b.Keys(queue)
	return script.NewCall(changePartScript, 4+5).
		Key(k.FlowPart(part), k.FlowOpen(part), k.FlowFailed(part), k.FlowsDue()).
		Arg(action, part.String(), version, wait.Milliseconds(), ttl)
}

// Checked postpones the next check of parts that have not changed since they were read.
func (b *Broker) Checked(ctx context.Context, wait time.Duration, parts ...*PartState) {
	calls := make([]*script.Call, len(parts))
	for i, p := range parts {
		calls[i] = b.partCall(p.Queue, p.Part, "check", p.Version, wait, wire.FlowIdle)
	}
	b.Run(ctx, calls...) // a part that stays due is checked again
}

// ClosePart makes a part refuse further members. It reports whether the part has any.
func (b *Broker) ClosePart(ctx context.Context, queue string, part wire.FlowPart) (has bool, err error) {
	c := b.partCall(queue, part, "close", 0, 0, wire.FlowIdle)
	b.Run(ctx, c)
	code, err := c.Int()
	return script.Code(code) == script.CodeAlready, err
}

// ReopenPart makes a part accept members again.
func (b *Broker) ReopenPart(ctx context.Context, queue string, part wire.FlowPart) error {
	c := b.partCall(queue, part, "reopen", 0, 0, wire.FlowIdle)
	b.Run(ctx, c)
	_, err := c.Int()
	return err
}

// ReleaseParts lets parts of a flow that has ended expire after ttl seconds.
func (b *Broker) ReleaseParts(ctx context.Context, ttl int64, parts ...*PartState) error {
	calls := make([]*script.Call, len(parts))
	for i, p := range parts {
		calls[i] = b.partCall(p.Queue, p.Part, "release", 0, 0, max(ttl, 1))
	}
	b.Run(ctx, calls...)
	for _, c := range calls {
		if _, err := c.Int(); err != nil {
			return err
		}
	}
	return nil
}

// StartFlow creates a flow. It returns ErrFlowExists if the ID is in use. A repeated call does
// nothing.
func (b *Broker) StartFlow(ctx context.Context, plan *wire.FlowPlan, record *wire.FlowRecord) error {
	encoded, err := plan.Encode()
	if err != nil {
		return err
	}
	fields, err := record.Changes()
	if err != nil {
		return err
	}
	n := b.Namespace()
	c := script.NewCall(startFlowScript, 2+2+len(fields)).Key(n.Flow(plan.ID), n.FlowPlan(plan.ID)).
		Arg(encoded, flowTTL).Arg(fields...)
	b.Run(ctx, c)
	code, err := c.Int()
	if err == nil && script.Code(code) == script.CodeConflict {
		err = ErrFlowExists
	}
	return err
}

// WriteFlow writes what has changed in a record. It returns ErrFlowChanged if another process has
// written the flow since the record was read, and ErrFlowGone if the flow does not exist.
func (b *Broker) WriteFlow(ctx context.Context, id string, record *wire.FlowRecord, ttl int64) error {
	fields, err := record.Changes()
	if err != nil || len(fields) == 0 {
		return err
	}
	n := b.Namespace()
	c := script.NewCall(writeFlowScript, 2+2+len(fields)).Key(n.Flow(id), n.FlowPlan(id)).
		Arg(record.Version, max(ttl, 1)).Arg(fields...)
	c.Once = true
	b.Run(ctx, c)
	code, err := c.Int()
	switch {
	case err != nil:
		return err
	case script.Code(code) == script.CodeChanged:
		return ErrFlowChanged
	case script.Code(code) == script.CodeGone:
		return ErrFlowGone
	}
	return nil
}

// ReadFlow reads the record of a flow, its plan unless the caller knows it, and the clock of Redis.
// It returns ErrFlowGone if the flow does not exist.
func (b *Broker) ReadFlow(ctx context.Context, id string, known func(run string) *wire.FlowPlan) (f StoredFlow, err error) {
	var fields *redis.MapStringStringCmd
	var clock *redis.TimeCmd
	_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		fields, clock = pipe.HGetAll(ctx, b.Namespace().Flow(id)), pipe.Time(ctx)
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("rdb: reading a flow: %w", err)
	}
	if len(fields.Val()) == 0 {
		return f, ErrFlowGone
	}
	f.Now = clock.Val().UnixMilli()
	if f.Record, err = wire.DecodeFlowRecord(fields.Val()); err != nil {
		return f, err
	}
	if known != nil {
		if f.Plan = known(f.Record.Run); f.Plan != nil {
			return f, nil
		}
	}
	encoded, err := b.Client().Get(ctx, b.Namespace().FlowPlan(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return f, ErrFlowGone
	}
	if err != nil {
		return f, fmt.Errorf("rdb: reading the plan of a flow: %w", err)
	}
	f.Plan, err = wire.DecodeFlowPlan(encoded)
	if err == nil && f.Plan.Run != f.Record.Run {
		err = ErrFlowGone // it was replaced between the two reads
	}
	return f, err
}

// StoredFlow is what Redis has of a flow.
type StoredFlow struct {
	Plan   *wire.FlowPlan
	Record *wire.FlowRecord
	Now    int64 // by the Redis clock, Unix milliseconds
}

// AnnounceFlow lists a flow, and makes servers check it after a moment, in case that the caller
// dies before FlowChecked.
func (b *Broker) AnnounceFlow(ctx context.Context, id string, created, check int64) error {
	n := b.Namespace()
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if created > 0 {
			pipe.ZAdd(ctx, n.Flows(), redis.Z{Score: float64(created), Member: id})
			pipe.Expire(ctx, n.Flows(), 2*wire.FlowIdle*time.Second)
		}
		pipe.ZAdd(ctx, n.FlowsToCheck(), redis.Z{Score: float64(check), Member: id})
		pipe.Expire(ctx, n.FlowsToCheck(), wire.FlowIdle*time.Second)
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: announcing a flow: %w", err)
	}
	return nil
}

// FlowChecked ends what AnnounceFlow began.
func (b *Broker) FlowChecked(ctx context.Context, id string) error {
	if err := b.Client().ZRem(ctx, b.Namespace().FlowsToCheck(), id).Err(); err != nil {
		return fmt.Errorf("rdb: ending the check of a flow: %w", err)
	}
	return nil
}

// FlowsToCheck returns flows whose check was announced for a time up to now, in Unix milliseconds.
func (b *Broker) FlowsToCheck(ctx context.Context, now int64) ([]string, error) {
	ids, err := b.Client().ZRangeByScore(ctx, b.Namespace().FlowsToCheck(),
		&redis.ZRangeBy{Min: "-inf", Max: fmt.Sprint(now), Count: 100}).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: reading the flows to check: %w", err)
	}
	return ids, nil
}

// MaxDueParts is the maximum number of parts that DueParts returns.
const MaxDueParts = 100

// DueParts returns parts of a queue that are due up to now, in Unix milliseconds.
func (b *Broker) DueParts(ctx context.Context, queue string, now int64) ([]wire.FlowPart, error) {
	names, err := b.Client().ZRangeByScore(ctx, b.Keys(queue).FlowsDue(),
		&redis.ZRangeBy{Min: "-inf", Max: fmt.Sprint(now), Count: MaxDueParts}).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: reading the due parts of flows: %w", err)
	}
	var parts []wire.FlowPart
	for _, name := range names {
		if part, ok := wire.ParseFlowPart(name); ok {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// DropPart removes a part whose flow does not exist from those that are checked.
func (b *Broker) DropPart(ctx context.Context, queue string, part wire.FlowPart) error {
	return b.ReleaseParts(ctx, wire.FlowIdle, &PartState{Queue: queue, Part: part})
}

// Now returns the time of Redis.
func (b *Broker) Now(ctx context.Context) (time.Time, error) {
	now, err := b.Client().Time(ctx).Result()
	if err != nil {
		return now, fmt.Errorf("rdb: reading the clock of Redis: %w", err)
	}
	return now, nil
}

// ScanMembers returns a page of the open or the failed members of a part, and the next cursor, 0 at
// the end.
func (b *Broker) ScanMembers(ctx context.Context, queue string, part wire.FlowPart, failed bool, cursor uint64) ([]string, uint64, error) {
	key := b.Keys(queue).FlowOpen(part)
	if failed {
		key = b.Keys(queue).FlowFailed(part)
	}
	ids, next, err := b.Client().SScan(ctx, key, cursor, "", script.MaxBatch).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("rdb: reading the members of a flow: %w", err)
	}
	return ids, next, nil
}

// Flows returns IDs of flows, the newest first, and the number of all that are listed.
func (b *Broker) Flows(ctx context.Context, skip, n int64) (ids []string, total int64, err error) {
	key := b.Namespace().Flows()
	var page *redis.StringSliceCmd
	var count *redis.IntCmd
	_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		page, count = pipe.ZRevRange(ctx, key, skip, skip+n-1), pipe.ZCard(ctx, key)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("rdb: listing flows: %w", err)
	}
	return page.Val(), count.Val(), nil
}

// FlowHead is what a flow has besides its nodes and its plan.
type FlowHead struct {
	ID               string
	Status           wire.FlowStatus
	Created, Changed int64 // Unix milliseconds
}

// FlowHeads is a page of the list of flows.
type FlowHeads struct {
	Heads  []FlowHead // of the flows that exist
	Listed int        // all IDs of the page
	Total  int        // IDs of the whole list
	Now    int64      // by the Redis clock, Unix milliseconds
}

// ReadFlowHeads reads the heads of up to n flows, the newest first, in two round trips.
func (b *Broker) ReadFlowHeads(ctx context.Context, skip, n int64) (p FlowHeads, err error) {
	ids, total, err := b.Flows(ctx, skip, n)
	p.Listed, p.Total = len(ids), int(total)
	if err != nil || len(ids) == 0 {
		return p, err
	}
	read := make([]*redis.SliceCmd, len(ids))
	var clock *redis.TimeCmd
	_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			read[i] = pipe.HMGet(ctx, b.Namespace().Flow(id), wire.FlowHeadFields()...)
		}
		clock = pipe.Time(ctx)
		return nil
	})
	if err != nil {
		return p, fmt.Errorf("rdb: reading the states of flows: %w", err)
	}
	for i, id := range ids {
		if status, created, changed, ok := wire.DecodeFlowHead(read[i].Val()); ok {
			p.Heads = append(p.Heads, FlowHead{ID: id, Status: status, Created: created, Changed: changed})
		}
	}
	p.Now = clock.Val().UnixMilli()
	return p, nil
}

// PruneFlows removes flows that do not exist from a random part of the list.
func (b *Broker) PruneFlows(ctx context.Context) error {
	const part = 100
	key := b.Namespace().Flows()
	total, err := b.Client().ZCard(ctx, key).Result()
	if err != nil || total == 0 {
		return err
	}
	from := max(0, rand.Int64N(total)-part/2)
	listed, err := b.Client().ZRangeWithScores(ctx, key, from, from+part-1).Result()
	if err != nil {
		return err
	}
	exist := make([]*redis.IntCmd, len(listed))
	var clock *redis.TimeCmd
	_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		clock = pipe.Time(ctx)
		for i, z := range listed {
			exist[i] = pipe.Exists(ctx, b.Namespace().Flow(z.Member.(string)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	var gone []redis.Z
	for i, z := range listed {
		if exist[i].Val() == 0 {
			gone = append(gone, z)
		}
	}
	_, err = b.unlist(ctx, gone, clock.Val())
	return err
}

// UnlistFlows removes flows that do not exist from the list, unless they were listed in the last
// minute: then they may be about to be created. It returns the number of those that it removed.
func (b *Broker) UnlistFlows(ctx context.Context, ids []string) (removed int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	key := b.Namespace().Flows()
	scores := make([]*redis.FloatCmd, len(ids))
	var clock *redis.TimeCmd
	_, err = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		clock = pipe.Time(ctx)
		for i, id := range ids {
			scores[i] = pipe.ZScore(ctx, key, id)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("rdb: unlisting flows: %w", err)
	}
	var listed []redis.Z
	for i, id := range ids {
		if score, err := scores[i].Result(); err == nil {
			listed = append(listed, redis.Z{Score: score, Member: id})
		}
	}
	return b.unlist(ctx, listed, clock.Val())
}

// unlist removes those from the list of flows that were not listed in the last minute.
func (b *Broker) unlist(ctx context.Context, listed []redis.Z, now time.Time) (removed int, err error) {
	var old []any
	for _, z := range listed {
		if int64(z.Score) < now.Add(-time.Minute).UnixMilli() {
			old = append(old, z.Member)
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	n, err := b.Client().ZRem(ctx, b.Namespace().Flows(), old...).Result()
	if err != nil {
		return 0, fmt.Errorf("rdb: unlisting flows: %w", err)
	}
	return int(n), nil
}
