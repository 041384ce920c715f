package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// After how long a flow is reported.
const (
	// unchangedFor is the time without a change of a running flow. It is longer than changes take,
	// which concern several slots, and than the time until servers continue those of callers that
	// have died.
	unchangedFor = time.Minute
	overdueFor   = 5 * time.Minute // servers check parts every few seconds
	blockedFor   = time.Hour
	openFor      = 24 * time.Hour
)

// maxSample is the number of tasks of an overdue part that are read.
const maxSample = 100

// The repairs of flows that nothing will continue.
const (
	repairAdvance = "check the flow, and start the nodes that may start"
	repairCreate  = "create its tasks again"
)

// checkFlows checks the flows that have not ended.
func (d *diagnosis) checkFlows(ctx context.Context, flows *flow.Inspector) error {
	clock, err := d.conn.Client().Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("reading the clock of Redis: %w", err)
	}
	n := d.conn.Namespace()
	seen := make(map[string]struct{}) // a scan may return an ID twice
	for cursor := uint64(0); ; {
		page, next, err := d.conn.Client().ZScan(ctx, n.Flows(), cursor, "", pageSize).Result()
		if err != nil {
			return fmt.Errorf("reading the list of flows: %w", err)
		}
		status := make(map[string]*redis.StringCmd, len(page)/2)
		err = d.read(ctx, "flows", func(pipe redis.Pipeliner) {
			for i := 0; i < len(page); i += 2 {
				if id := page[i]; !hasKey(seen, id) {
					seen[id] = struct{}{}
					status[id] = pipe.HGet(ctx, n.Flow(id), wire.FieldFlowStatus)
				}
			}
		})
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(status)) {
			if s := wire.FlowStatus(status[id].Val()); s != wire.FlowRunning && s != wire.FlowBlocked {
				continue
			}
			err := d.checkFlow(ctx, flows, id, clock)
			switch {
			case err == nil:
			case errors.Is(err, errStopped):
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !d.yieldError(fmt.Errorf("flow %q: %w", id, err)):
				return errStopped
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// readFlow reads the state of a flow, nil if there is none.
func (d *diagnosis) readFlow(ctx context.Context, id string) (*wire.FlowRecord, error) {
	fields, err := d.conn.Client().HGetAll(ctx, d.conn.Namespace().Flow(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("reading a flow: %w", err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return wire.DecodeFlowRecord(fields)
}

// checkFlow checks a flow that runs or is blocked. Its keys and those of its parts are in different
// slots, so they are not read at one moment: findings count only if the flow has not changed for a
// while, and not meanwhile.
func (d *diagnosis) checkFlow(ctx context.Context, flows *flow.Inspector, id string, now time.Time) error {
	r, err := d.readFlow(ctx, id)
	if err != nil || r == nil {
		return err
	}
	changed := r.Changed
	for _, n := range r.Nodes {
		changed = max(changed, n.Started, n.Ended)
	}
	idle := now.Sub(time.UnixMilli(changed))
	var found []*Finding
	switch {
	case r.Status == wire.FlowBlocked && idle >= blockedFor:
		found, err = d.blockedFlow(ctx, flows, id, r)
	case r.Status == wire.FlowRunning && idle >= unchangedFor:
		found, err = d.runningFlow(ctx, id, r, idle, now)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	if again, err := d.readFlow(ctx, id); err != nil || again == nil || again.Version != r.Version {
		return err
	}
	for _, f := range found {
		f.Kind, f.Flow = FlowStuck, id
		if f.Key == "" {
			f.Key = d.conn.Namespace().Flow(id)
		}
		if !d.keep(f.Queue) {
			continue
		}
		if d.repair && f.Repair != "" {
			if _, err := flows.Advance(ctx, id); err != nil {
				return fmt.Errorf("checking the flow: %w", err)
			}
			f.Repaired = true
		}
		if !d.yield(f, nil) {
			return errStopped
		}
	}
	return nil
}

// at formats a time in Unix milliseconds.
func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05Z") }

// blockedFlow returns a finding for each node because of which a flow is blocked.
func (d *diagnosis) blockedFlow(ctx context.Context, flows *flow.Inspector, id string, r *wire.FlowRecord) (found []*Finding, err error) {
	info, err := flows.Get(ctx, id)
	if err != nil {
		if errors.Is(err, flow.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	for _, n := range info.Blockers() {
		f := &Finding{
			Node:   n.Name,
			Detail: fmt.Sprintf("flow %q has been blocked since %s: node %q has failed, and others wait for its success", id, at(r.Changed), n.Name),
		}
		if len(n.Queues) > 0 {
			f.Queue = n.Queues[0]
		}
		found = append(found, f)
	}
	return found, nil
}

// part is what a queue has of a node.
type part struct {
	queue  string
	exists *redis.IntCmd
	due    *redis.FloatCmd
	open   *redis.IntCmd
}

// runningFlow returns the findings of a flow that runs.
func (d *diagnosis) runningFlow(ctx context.Context, id string, r *wire.FlowRecord, idle time.Duration, now time.Time) (found []*Finding, err error) {
	err = d.conn.Client().ZScore(ctx, d.conn.Namespace().FlowsToCheck(), id).Err()
	announced := err == nil
	if err := script.IgnoreRefused(err); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading the flows to check: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		n := r.Nodes[name]
		if n.Status != wire.FlowRunning {
			continue
		}
		in := wire.FlowPart{Run: r.Run, Node: name, Flow: id}
		parts := make([]part, len(n.Queues))
		err := d.read(ctx, "the parts of a flow", func(pipe redis.Pipeliner) {
			for i, queue := range n.Queues {
				k := d.conn.Keys(queue)
				parts[i] = part{queue, pipe.Exists(ctx, k.FlowPart(in)), pipe.ZScore(ctx, k.FlowsDue(), in.String()), pipe.SCard(ctx, k.FlowOpen(in))}
			}
		})
		if err != nil {
			return nil, err
		}
		f, err := d.runningNode(ctx, in, n, parts, idle, now, announced)
		if err != nil {
			return nil, err
		}
		if f != nil {
			found = append(found, f)
		}
	}
	return found, nil
}

// runningNode returns the finding of a node that runs, nil if servers will continue it. announced
// states that they check the flow anyway.
func (d *diagnosis) runningNode(
	ctx context.Context, in wire.FlowPart, n *wire.FlowNode, parts []part, idle time.Duration, now time.Time, announced bool,
) (*Finding, error) {
	what := fmt.Sprintf("node %q of flow %q", in.Node, in.Flow)
	exist, open := 0, int64(0)
	for _, p := range parts {
		exist += int(p.exists.Val())
		open += p.open.Val()
	}
	switch {
	case n.Open && open == 0 && idle >= openFor:
		return &Finding{Detail: fmt.Sprintf("%s, a batch, has been open since %s, and no task of it is left", what, at(n.Started))}, nil
	case n.Open && exist == 0 || announced:
		return nil, nil
	case exist == 0 && len(parts) > 0:
		k := d.conn.Keys(parts[0].queue)
		return &Finding{
			Queue: k.Name, Node: in.Node, Key: k.FlowPart(in), Repair: repairCreate,
			Detail: what + " runs, but its queue has no trace of its tasks",
		}, nil
	}
	for _, p := range parts {
		k := d.conn.Keys(p.queue)
		f := &Finding{Queue: p.queue, Node: in.Node, Key: k.FlowsDue(), Repair: repairAdvance}
		switch {
		case p.exists.Val() == 0:
		case errors.Is(p.due.Err(), redis.Nil):
			f.Detail = what + " runs, but servers do not check it"
			return f, nil
		case p.due.Err() == nil && now.Sub(time.UnixMilli(int64(p.due.Val()))) >= overdueFor:
			ended, err := d.membersEnded(ctx, k, in)
			if err != nil {
				return nil, err
			}
			if !ended {
				continue
			}
			f.Detail = fmt.Sprintf("the tasks of %s have ended, but no server of this library has checked them since %s", what, at(int64(p.due.Val())))
			return f, nil
		}
	}
	return nil, nil
}

// membersEnded reports whether no open member of a part, or of a sample of many, waits or runs.
func (d *diagnosis) membersEnded(ctx context.Context, k wire.Queue, in wire.FlowPart) (bool, error) {
	ids, err := d.conn.Client().SRandMemberN(ctx, k.FlowOpen(in), maxSample).Result()
	if err := script.IgnoreRefused(err); err != nil {
		return false, fmt.Errorf("reading the tasks of a flow: %w", err)
	}
	states := make([]*redis.StringCmd, len(ids))
	err = d.read(ctx, "the tasks of a flow", func(pipe redis.Pipeliner) {
		for i, id := range ids {
			states[i] = pipe.HGet(ctx, k.Task(id), wire.FieldState)
		}
	})
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(states, func(s *redis.StringCmd) bool {
		return s.Err() == nil && s.Val() != wire.StateCompleted.String() && s.Val() != wire.StateArchived.String()
	}), nil
}

// checkMembers checks that the flows of open members exist. A flow is created before its members,
// and does not end before they have: so if there are members before and after the flow was missing,
// it is gone.
func (d *diagnosis) checkMembers(ctx context.Context, q *queue, keys []string) error {
	type members struct {
		key           string
		part          wire.FlowPart
		before, after *redis.IntCmd
		run           *redis.StringCmd
	}
	var all []members
	for _, key := range keys {
		if p, ok := wire.ParseFlowOpen(q.Keys, key); ok {
			all = append(all, members{key: key, part: p})
		}
	}
	for _, read := range []func(redis.Pipeliner, *members){
		func(pipe redis.Pipeliner, m *members) { m.before = pipe.SCard(ctx, m.key) },
		func(pipe redis.Pipeliner, m *members) {
			m.run = pipe.HGet(ctx, d.conn.Namespace().Flow(m.part.Flow), wire.FieldFlowRun)
		},
		func(pipe redis.Pipeliner, m *members) { m.after = pipe.SCard(ctx, m.key) },
	} {
		if len(all) == 0 {
			return nil
		}
		err := d.read(ctx, "the members of flows", func(pipe redis.Pipeliner) {
			for i := range all {
				read(pipe, &all[i])
			}
		})
		if err != nil {
			return err
		}
	}
	for _, m := range all {
		gone := errors.Is(m.run.Err(), redis.Nil) || m.run.Err() == nil && m.run.Val() != m.part.Run
		if m.before.Val() == 0 || m.after.Val() == 0 || !gone {
			continue
		}
		err := d.report(q, &Finding{
			Kind: FlowOrphan, Key: m.key, Flow: m.part.Flow, Node: m.part.Node,
			Detail: fmt.Sprintf("node %q of flow %q has tasks that have not ended (%d), but the flow does not exist", m.part.Node, m.part.Flow, m.after.Val()),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
