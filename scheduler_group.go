package asynq

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
)

// The pace of a group. A leader that dies is replaced after its lease, and a moment for the others to ask.
const (
	groupLease     = 6 * time.Second
	leadChecks     = 4                // in the time of a lease, by its leader
	followInterval = time.Second      // how often the others ask, at least
	takeoverWindow = 10 * time.Second // ticks that came due in a longer gap are missed
)

// term is a time through which this scheduler leads its group without a gap. Without a group it leads from its start on.
type term struct {
	id       int64     // unique to the group; 0: none
	began    time.Time // as this scheduler learned of it
	ends     time.Time // unless it is prolonged; by the clock of this process, and early rather than late
	deadline int64     // the same by Redis's clock, unix milliseconds
	missed   bool      // what came due before it is missed
}

// soloTerm is the term of a scheduler that is in no group.
func soloTerm(now time.Time) term {
	return term{id: 1, began: now} // it does not end
}

// leads returns the term, and whether it lasts.
func (s *Scheduler) leads(now time.Time) (term, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term, s.term.id != 0 && (s.opts.Group == "" || now.Before(s.term.ends))
}

// lead asks for the lead of the group, again and again. Whatever goes wrong, the term ends by itself.
func (s *Scheduler) lead(ctx context.Context) (time.Duration, error) {
	asked := s.now()
	l, err := s.broker.Lead(ctx, s.opts.Group, s.process.ID, s.lease)
	if err != nil {
		return 0, err
	}
	before, after := s.takeNote(l, asked)
	switch {
	case after != before && after != 0:
		s.log.Info("scheduler leads its group", "group", s.opts.Group, "vacant", l.Vacant)
	case after != before:
		s.log.Warn("another scheduler leads the group", "group", s.opts.Group)
	}
	if after != before {
		wake(s.wakeTicks)
		wake(s.wakeHeartbeat)
	}
	if !l.Leads {
		left := time.Duration(l.Until-l.Now+1) * time.Millisecond
		return min(left, followInterval, s.lease), nil
	}
	return s.lease / leadChecks, nil
}

// takeNote keeps what Redis answered, and returns the ID of the term before and after.
func (s *Scheduler) takeNote(l rdb.Lead, asked time.Time) (before, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.term.id
	if !l.Leads {
		s.term = term{}
		return before, 0
	}
	if l.Began != before {
		s.term = term{id: l.Began, began: asked, missed: l.Vacant < 0 || l.Vacant > takeoverWindow}
	} else if !s.now().Before(s.term.ends) {
		wake(s.wakeTicks) // they may have found the term at its end, and sleep
	}
	s.term.ends, s.term.deadline = asked.Add(s.lease), l.Until
	return before, l.Began
}

// resign ends a term that Redis says is over, and asks for another one.
func (s *Scheduler) resign(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term.id == id {
		s.term.ends = time.Time{}
		wake(s.wakeLead)
	}
}

// recall learns of the entries that are new in a term where their rows of ticks go on, and tells of those whose missed ticks are
// skipped. An entry that it fails for is left for later.
func (s *Scheduler) recall(ctx context.Context, in term) {
	now := s.now()
	s.mu.Lock()
	var entries []*scheduled
	var memories []*rdb.TickMemory
	for _, e := range s.entries {
		fresh := e.term != in.id
		if !fresh && !e.skipped || e.retryAt.After(now) {
			continue
		}
		seed := in.began
		if e.since.After(seed) {
			seed = e.since
		}
		if s.opts.Group == "" {
			if fresh {
				e.start(in.id, seed)
			}
			e.skipped = false
			continue
		}
		m := &rdb.TickMemory{Entry: e.id, Queue: e.queue, Seed: seed.UnixMilli()}
		if !fresh {
			m.Over = e.cursor.UnixMilli()
		}
		if entries, memories = append(entries, e), append(memories, m); len(entries) == tickBatch {
			break
		}
	}
	s.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	s.broker.RecallTick(ctx, memories...)
	if err := s.learn(in, entries, memories); err != nil && ctx.Err() == nil {
		s.log.Error("the last ticks of periodic tasks are not known", "error", err)
	}
}

// learn keeps what was recalled, and returns an error that entries met which had none before.
func (s *Scheduler) learn(in term, entries []*scheduled, memories []*rdb.TickMemory) (failed error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(entries) == tickBatch {
		wake(s.wakeTicks) // there may be more
	}
	for i, m := range memories {
		e := entries[i]
		switch {
		case m.Err != nil:
			if e.failures == 0 {
				failed = m.Err
			}
			e.failed(now)
		case e.term == in.id:
			e.skipped = false
		default:
			e.start(in.id, time.UnixMilli(m.Last))
			if m.Made {
				e.prev = e.cursor
			}
			if in.missed {
				e.gap = in.began
			}
		}
	}
	return failed
}

// leadLoop is only there in a group.
func (s *Scheduler) leadLoop() runner.Loop {
	return runner.Loop{Name: "lead", Stage: stageWork, Tick: s.lead, Wake: s.wakeLead}
}
