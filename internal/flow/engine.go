package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Broker is the part of rdb.Broker that an Engine uses.
type Broker interface {
	ReadFlow(ctx context.Context, id string, known func(run string) *wire.FlowPlan) (rdb.StoredFlow, error)
	WriteFlow(ctx context.Context, id string, record *wire.FlowRecord, ttl int64) error
	StartFlow(ctx context.Context, plan *wire.FlowPlan, record *wire.FlowRecord) error
	AnnounceFlow(ctx context.Context, id string, created, check int64) error
	FlowChecked(ctx context.Context, id string) error
	FlowsToCheck(ctx context.Context, now int64) ([]string, error)
	PruneFlows(ctx context.Context) error
	CreateMembers(ctx context.Context, calls ...*rdb.Members)
	ReadParts(ctx context.Context, parts ...*rdb.PartState)
	Checked(ctx context.Context, wait time.Duration, parts ...*rdb.PartState)
	ClosePart(ctx context.Context, queue string, part wire.FlowPart) (has bool, err error)
	ReopenPart(ctx context.Context, queue string, part wire.FlowPart) error
	ReleaseParts(ctx context.Context, ttl int64, parts ...*rdb.PartState) error
	DueParts(ctx context.Context, queue string, now int64) ([]wire.FlowPart, error)
	DropPart(ctx context.Context, queue string, part wire.FlowPart) error
	Filled(ctx context.Context, queues []string, keys ...func(wire.Queue) string) ([]string, error)
	ScanMembers(ctx context.Context, queue string, part wire.FlowPart, failed bool, cursor uint64) ([]string, uint64, error)
	CancelTo(ctx context.Context, id string, fate wire.CancelOutcome) error
	Now(ctx context.Context) (time.Time, error)
}

// Changer is the part of inspect.Inspector that an Engine uses.
type Changer interface {
	Change(ctx context.Context, ch inspect.Change, ids []string) ([]script.Code, error)
}

// Engine changes flows: it carries what has happened in their parts to the flow, and the tasks of
// nodes that start to their queues. Each step may be repeated, by any number of processes at a
// time: the tasks of a node are created once, because their parts record it, and the flow is only
// written if it has not changed since it was read.
type Engine struct {
	Broker Broker
	// Tasks deletes the tasks of canceled flows. If nil, this is left to the canceling process and
	// to servers, and Retry cannot be used.
	Tasks Changer

	mu    sync.Mutex
	plans map[string]*wire.FlowPlan // by run
	bytes int                       // of their messages
}

// The limits of the plans in memory. One plan is always kept.
const (
	maxPlans     = 200
	maxPlanBytes = 32 << 20 // of messages
)

// maxConflicts limits how often a change is repeated because another process has changed the flow.
const maxConflicts = 50

func (e *Engine) known(run string) *wire.FlowPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.plans[run]
}

func (e *Engine) remember(plan *wire.FlowPlan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.plans[plan.Run] != nil {
		return
	}
	bytes := 0
	for i := range plan.Nodes {
		for _, t := range plan.Nodes[i].Tasks {
			bytes += len(t.Message)
		}
	}
	if e.plans == nil || len(e.plans) >= maxPlans || e.bytes+bytes > maxPlanBytes {
		e.plans, e.bytes = make(map[string]*wire.FlowPlan), 0
	}
	e.plans[plan.Run] = plan
	e.bytes += bytes
}

// Read returns a flow as it was last written.
func (e *Engine) Read(ctx context.Context, id string) (*Flow, error) {
	f, _, err := e.read(ctx, id)
	return f, err
}

func (e *Engine) read(ctx context.Context, id string) (f *Flow, now int64, err error) {
	stored, err := e.Broker.ReadFlow(ctx, id, e.known)
	if err != nil {
		return nil, 0, err
	}
	e.remember(stored.Plan)
	return &Flow{Plan: stored.Plan, Record: stored.Record}, stored.Now, nil
}

// checkDelay is when servers check a flow whose caller may have died.
const checkDelay = 5 * time.Second

// pruneEvery is how many starts there are on average for a call of PruneFlows: often enough that
// flows that no longer exist are at most about a quarter of a long list.
const pruneEvery = 25

// Start creates a flow and the tasks of its first nodes. It returns rdb.ErrFlowExists, with the
// flow, if the ID is in use.
func (e *Engine) Start(ctx context.Context, plan *wire.FlowPlan) (*Flow, error) {
	now, err := e.Broker.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.Broker.AnnounceFlow(ctx, plan.ID, now.UnixMilli(), now.Add(checkDelay).UnixMilli()); err != nil {
		return nil, err
	}
	f := New(plan, now.UnixMilli())
	if err := e.Broker.StartFlow(ctx, plan, f.Record); err != nil {
		if !errors.Is(err, rdb.ErrFlowExists) {
			return nil, err
		}
		existing, readErr := e.Read(ctx, plan.ID)
		return existing, errors.Join(err, readErr)
	}
	f, err = e.Update(ctx, plan.ID, Update{})
	if err != nil {
		return nil, err
	}
	if rand.IntN(pruneEvery) == 0 {
		_ = e.Broker.PruneFlows(ctx) // another start may succeed
	}
	return f, e.Broker.FlowChecked(ctx, plan.ID)
}

// Update is a change of a flow.
type Update struct {
	// Change changes the flow, and may be called repeatedly. It may be nil.
	Change func(f *Flow, now int64) error
	// Announce makes servers repeat the consequences of the change if the caller dies before they
	// are complete.
	Announce bool
	// Nodes are those whose parts are read; nil means all that have started.
	Nodes []string
	// Run is the run that must not have been replaced; "" means any.
	Run string
	// Compare is whether members are compared with their tasks.
	Compare rdb.Compare
	// Read is a part that was read just before.
	Read *rdb.PartState
}

// Update changes a flow, and does what follows from the change and from what has happened in its
// parts. It returns the flow as it was written.
func (e *Engine) Update(ctx context.Context, id string, u Update) (*Flow, error) {
	for range maxConflicts {
		f, again, err := e.update(ctx, id, u)
		if !again && !errors.Is(err, rdb.ErrFlowChanged) && !errors.Is(err, rdb.ErrPartClosed) {
			return f, err
		}
		u.Read = nil
		if again {
			u.Change, u.Nodes = nil, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("flow: %w", context.Cause(ctx))
		}
	}
	return nil, rdb.ErrFlowChanged
}

// update reports again if the tasks of a node that starts already existed: the process that created
// them could not write the flow, and they may have ended.
func (e *Engine) update(ctx context.Context, id string, u Update) (f *Flow, again bool, err error) {
	f, now, err := e.read(ctx, id)
	if err != nil {
		return nil, false, err
	}
	if u.Run != "" && f.Record.Run != u.Run {
		return nil, false, rdb.ErrFlowGone
	}
	if u.Announce {
		if err := e.Broker.AnnounceFlow(ctx, id, 0, now+checkDelay.Milliseconds()); err != nil {
			return nil, false, err
		}
	}
	canceled := f.Record.Canceled
	if u.Change != nil {
		if err := u.Change(f, now); err != nil {
			return f, false, err
		}
	}
	if canceled && e.Tasks != nil { // as Redis knows
		if err := e.remove(ctx, f); err != nil {
			return nil, false, err
		}
		u.Nodes, u.Compare, u.Read = nil, rdb.CompareAll, nil
	}
	parts, err := e.count(ctx, f, u, now)
	if err != nil {
		return nil, false, err
	}
	if again, err = e.create(ctx, f, f.Advance(now), now); err != nil {
		return nil, false, err
	}
	ttl := int64(wire.FlowIdle)
	if f.Record.Status.Ended() {
		ttl = max(f.Plan.Retention, 1)
	}
	if err := e.Broker.WriteFlow(ctx, id, f.Record, ttl); err != nil {
		return nil, false, err
	}
	if f.Record.Status.Ended() {
		if err := e.Broker.ReleaseParts(ctx, ttl, f.allParts()...); err != nil {
			return nil, false, err
		}
	} else {
		e.Broker.Checked(ctx, nextCheck(now-f.Record.Changed), parts...)
	}
	if u.Announce {
		return f, again, e.Broker.FlowChecked(ctx, id)
	}
	return f, again, nil
}

// The time between two checks of a part: it grows with the time since the flow has changed.
const (
	minCheck = 30 * time.Second
	maxCheck = 10 * time.Minute
)

func nextCheck(idle int64) time.Duration {
	return min(max(minCheck, time.Duration(idle)*time.Millisecond/4), maxCheck)
}

// parts returns the parts of a node, as far as the record knows.
func (f *Flow) parts(node string) []*rdb.PartState {
	var parts []*rdb.PartState
	for _, queue := range f.Record.Nodes[node].Queues {
		parts = append(parts, &rdb.PartState{Queue: queue, Part: f.Part(node)})
	}
	return parts
}

func (f *Flow) allParts() (parts []*rdb.PartState) {
	for i := range f.Plan.Nodes {
		parts = append(parts, f.parts(f.Plan.Nodes[i].Name)...)
	}
	return parts
}

// count reads the parts of nodes and sets their counters. It creates tasks again that the record
// states to exist, and of which a queue has no trace: a failover has lost them.
//
// The parts of a node are not read at one moment: a member may end after another one was added by
// it elsewhere. So if all have ended, they are read again: if no part has changed, then all had
// ended at once, and no member is left that could add others.
func (e *Engine) count(ctx context.Context, f *Flow, u Update, now int64) (all []*rdb.PartState, err error) {
	nodes := u.Nodes
	if nodes == nil {
		for i := range f.Plan.Nodes {
			nodes = append(nodes, f.Plan.Nodes[i].Name)
		}
	}
	parts := make(map[string][]*rdb.PartState)
	var unread []*rdb.PartState
	for _, name := range nodes {
		n := f.Record.Nodes[name]
		if n == nil || n.Status != wire.FlowRunning && n.Status != wire.FlowHasFailed {
			continue
		}
		parts[name] = f.parts(name)
		if have := u.Read; have != nil && have.Part == f.Part(name) && len(n.Queues) == 1 && n.Queues[0] == have.Queue {
			parts[name][0] = have
			all = append(all, have)
			continue
		}
		for _, p := range parts[name] {
			p.Compare = u.Compare
		}
		all = append(all, parts[name]...)
		unread = append(unread, parts[name]...)
	}
	if len(unread) > 0 {
		e.Broker.ReadParts(ctx, unread...)
	}
	var again []string
	for name, read := range parts {
		c, err := sum(read)
		if err != nil {
			return nil, err
		}
		if p := f.planned(name); f.Record.Nodes[name].Created && c.Planned < int64(len(p.Tasks)) {
			if _, err := e.create(ctx, f, []string{name}, now); err != nil {
				return nil, err
			}
			again = append(again, name)
		} else if c.Open == 0 && len(read) > 1 {
			again = append(again, name)
		} else {
			f.Count(name, c, now)
		}
	}
	for _, name := range again {
		second := f.parts(name)
		e.Broker.ReadParts(ctx, second...)
		c, err := sum(second)
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(parts[name], second, func(a, b *rdb.PartState) bool { return a.Version == b.Version }) {
			c.Open = max(c.Open, 1) // it is running: a later check decides
		}
		f.Count(name, c, now)
		all = slices.DeleteFunc(all, func(p *rdb.PartState) bool { return p.Part.Node == name })
		if c.Open == 0 {
			all = append(all, second...)
		}
	}
	return all, nil
}

func sum(parts []*rdb.PartState) (c Counts, err error) {
	for _, p := range parts {
		if p.Err != nil {
			return c, p.Err
		}
		c.Planned += p.Planned
		c.Made += p.Made
		c.Succeeded += p.Succeeded
		c.Failed += p.Failed
		c.Deleted += p.Deleted
		c.Open += p.Open
	}
	return c, nil
}

// create creates the tasks of nodes that start. It reports whether some existed.
func (e *Engine) create(ctx context.Context, f *Flow, nodes []string, now int64) (repeated bool, err error) {
	var calls []*rdb.Members
	for _, name := range nodes {
		calls = append(calls, f.creations(name, now)...)
	}
	for some := range slices.Chunk(calls, script.MaxPipeline) {
		e.Broker.CreateMembers(ctx, some...)
		for _, c := range some {
			if c.Err != nil {
				return false, c.Err
			}
			repeated = repeated || c.Repeated
		}
	}
	for _, name := range nodes {
		f.Record.Nodes[name].Created = true
	}
	return repeated, nil
}

// creations returns the calls that create the tasks of a node. They are the same each time.
func (f *Flow) creations(node string, now int64) (calls []*rdb.Members) {
	open := make(map[string]*rdb.Members)
	bytes := make(map[*rdb.Members]int)
	for _, t := range f.planned(node).Tasks {
		in := open[t.Queue]
		if in == nil || len(in.Tasks) == script.MaxBatch || bytes[in]+len(t.Message) > script.MaxBatchBytes {
			in = &rdb.Members{Queue: t.Queue, Part: f.Part(node), Chunk: fmt.Sprint(len(calls))}
			open[t.Queue] = in
			calls = append(calls, in)
		}
		in.Tasks = append(in.Tasks, newTask(t, now))
		bytes[in] += len(t.Message)
	}
	return calls
}

// newTask returns the task of a node that starts now.
func newTask(t wire.FlowTask, now int64) *rdb.NewTask {
	task := &rdb.NewTask{ID: t.ID, Queue: t.Queue, Message: t.Message}
	at := t.At
	if t.Delay > 0 {
		at = now + t.Delay
	}
	if at > now {
		task.ProcessAt = (at + 999) / 1000
		task.Early = uint16(task.ProcessAt*1000 - at)
	}
	return task
}

// AddQueues records that a node has or will have members in queues. It returns rdb.ErrPartClosed if
// the node accepts none: it has not started or has ended, or open is set and it is closed. If open
// is not set, the caller is a member: if the node is said to wait, the process that has created the
// member has not written the flow yet, and AddQueues does.
func (e *Engine) AddQueues(ctx context.Context, part wire.FlowPart, queues []string, open bool) error {
	updated := false
	for range maxConflicts {
		f, now, err := e.read(ctx, part.Flow)
		if err != nil {
			return err
		}
		n := f.Record.Nodes[part.Node]
		switch {
		case f.Record.Run != part.Run || n == nil:
			return rdb.ErrFlowGone
		case n.Status == wire.FlowWaiting && !open && !updated && !f.Record.Canceled:
			if _, err := e.Update(ctx, part.Flow, Update{Run: part.Run}); err != nil {
				return err
			}
			updated = true
			continue
		case f.Record.Canceled || n.Status != wire.FlowRunning && n.Status != wire.FlowHasFailed || open && !n.Open:
			return rdb.ErrPartClosed
		}
		for _, queue := range queues {
			if !slices.Contains(n.Queues, queue) {
				n.Queues, f.Record.Changed = append(n.Queues, queue), now
			}
		}
		if err := e.Broker.WriteFlow(ctx, part.Flow, f.Record, wire.FlowIdle); !errors.Is(err, rdb.ErrFlowChanged) {
			return err
		}
	}
	return rdb.ErrFlowChanged
}

// AddMembers creates members of a node that are not in its plan. Tasks that are nil are skipped. It
// returns the error of each task.
func (e *Engine) AddMembers(ctx context.Context, part wire.FlowPart, tasks []*rdb.NewTask) []error {
	errs := make([]error, len(tasks))
	open := make(map[string]*rdb.Members)
	bytes, at := make(map[*rdb.Members]int), make(map[*rdb.NewTask]int)
	var calls []*rdb.Members
	for i, t := range tasks {
		if t == nil {
			continue
		}
		in := open[t.Queue]
		if in == nil || len(in.Tasks) == script.MaxBatch || bytes[in]+len(t.Message) > script.MaxBatchBytes {
			in = &rdb.Members{Queue: t.Queue, Part: part}
			open[t.Queue] = in
			calls = append(calls, in)
		}
		in.Tasks = append(in.Tasks, t)
		bytes[in] += len(t.Message)
		at[t] = i
	}
	for some := range slices.Chunk(calls, script.MaxPipeline) {
		e.Broker.CreateMembers(ctx, some...)
		for _, c := range some {
			for _, t := range c.Tasks {
				errs[at[t]] = cmp.Or(c.Err, t.Err)
			}
		}
	}
	return errs
}
