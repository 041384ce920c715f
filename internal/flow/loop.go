package flow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Loop advances the flows with members in the queues of a lane: at once when a worker of this
// process reports the end of a member, and otherwise when their parts are due.
type Loop struct {
	Engine *Engine
	Queues []string // of the lane

	wake chan struct{}
	mu   sync.Mutex
	ends map[end]bool

	scanned time.Time
	seen    map[end]seen
}

// end is a part in which members have ended.
type end struct {
	queue string
	part  wire.FlowPart
}

// seen is when the Loop has last advanced the flow of a part.
type seen struct {
	at     time.Time // when its flow was advanced
	failed int64     // failed and deleted members then
	next   time.Time // when the part is read again
}

const (
	scanInterval = 5 * time.Second
	// seenFor is how long a part is not carried to its flow while members remain that have not
	// ended, and no further one has failed.
	seenFor = time.Second
	// crowded is the number of open members from which on a part is read every crowdedWait.
	crowded     = 200
	crowdedWait = 20 * time.Millisecond
)

// NewLoop returns a Loop for the queues of a lane.
func NewLoop(engine *Engine, queues []string) *Loop {
	return &Loop{
		Engine: engine, Queues: queues, wake: make(chan struct{}, 1), ends: make(map[end]bool), seen: make(map[end]seen),
	}
}

// Wake ends the pause between two ticks.
func (l *Loop) Wake() <-chan struct{} { return l.wake }

// Ended reports that a member of a part has ended. It does not block.
func (l *Loop) Ended(queue, part string) {
	name, ok := wire.ParseFlowPart(part)
	if !ok {
		return
	}
	l.mu.Lock()
	l.ends[end{queue, name}] = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Tick advances the flows of reported ends, and every scanInterval those that are due.
func (l *Loop) Tick(ctx context.Context) (time.Duration, error) {
	l.mu.Lock()
	ends := l.ends
	l.ends = make(map[end]bool)
	l.mu.Unlock()
	var failed []error
	delay := scanInterval
	for at := range ends {
		if wait := time.Until(l.seen[at].next); wait > 0 {
			l.mu.Lock()
			l.ends[at] = true
			l.mu.Unlock()
			delay = min(delay, wait)
		} else if err := l.advance(ctx, at); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 && time.Since(l.scanned) >= scanInterval {
		more, err := l.scan(ctx)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !more:
			l.scanned = time.Now()
		}
	}
	if len(failed) > 0 {
		return 0, errors.Join(failed...) // the parts remain due
	}
	return min(delay, max(scanInterval-time.Since(l.scanned), time.Millisecond)), nil
}

// advance carries a part to its flow, if that can change anything.
func (l *Loop) advance(ctx context.Context, at end) error {
	p := &rdb.PartState{Queue: at.queue, Part: at.part}
	l.Engine.Broker.ReadParts(ctx, p)
	if p.Err != nil || !p.Exists {
		return p.Err
	}
	now := time.Now()
	s, known := l.seen[at]
	if len(l.seen) > maxSeen {
		clear(l.seen)
	}
	if p.Open == 0 {
		delete(l.seen, at)
	} else {
		if p.Open >= crowded {
			s.next = now.Add(crowdedWait)
		}
		if known && s.failed == p.Failed+p.Deleted && now.Sub(s.at) < seenFor {
			l.seen[at] = s
			return nil // it remains due
		}
		s.at, s.failed = now, p.Failed+p.Deleted
		l.seen[at] = s
	}
	return l.update(ctx, at, Update{Nodes: []string{at.part.Node}, Read: p})
}

// maxSeen limits the parts in memory.
const maxSeen = 10_000

// update advances the flow of a part. A part without a flow is forgotten.
func (l *Loop) update(ctx context.Context, at end, u Update) error {
	u.Run = at.part.Run
	_, err := l.Engine.Update(ctx, at.part.Flow, u)
	if errors.Is(err, rdb.ErrFlowGone) {
		return l.Engine.Broker.DropPart(ctx, at.queue, at.part)
	}
	return err
}

// scan advances the flows whose parts are due, and those that a process has announced and not
// finished. It reports whether there are more.
func (l *Loop) scan(ctx context.Context) (more bool, err error) {
	b := l.Engine.Broker
	queues, err := b.Filled(ctx, l.Queues, wire.Queue.FlowsDue)
	if err != nil {
		return false, err
	}
	now := time.Now()
	if len(queues) > 0 {
		if now, err = b.Now(ctx); err != nil {
			return false, err
		}
	}
	var failed []error
	done := make(map[string]bool) // by run
	for _, queue := range queues {
		parts, err := b.DueParts(ctx, queue, now.UnixMilli())
		if err != nil {
			failed = append(failed, err)
		}
		for _, part := range parts {
			if done[part.Run] {
				continue
			}
			done[part.Run] = true
			if err := l.update(ctx, end{queue, part}, Update{Compare: rdb.CompareDue}); err != nil {
				failed = append(failed, err)
			}
		}
		more = more || len(parts) == rdb.MaxDueParts
	}
	ids, err := b.FlowsToCheck(ctx, now.UnixMilli())
	if err != nil {
		failed = append(failed, err)
	}
	for _, id := range ids {
		_, err := l.Engine.Update(ctx, id, Update{})
		if err == nil || errors.Is(err, rdb.ErrFlowGone) {
			err = b.FlowChecked(ctx, id)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return more, errors.Join(failed...)
}
