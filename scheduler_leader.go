package asynq

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// The timing of a group. A leader that crashes is replaced when its lease has expired and the next
// follower asks for the leadership.
const (
	groupLease     = 6 * time.Second
	leadChecks     = 4                // renewals per lease by its leader
	followInterval = time.Second      // between two requests of a follower
	takeoverWindow = 10 * time.Second // ticks in longer gaps are missed
)

// term is a leadership term: a period during which this scheduler leads its group without a gap.
// Without a group, it begins with Start and does not end.
type term struct {
	id       int64     // unique within the group; 0: none
	began    time.Time // by the clock of this process
	ends     time.Time // unless it is extended; by the clock of this process, at the latest when Redis ends it
	deadline int64     // the same by the clock of Redis, in Unix milliseconds
	missed   bool      // ticks before the term are missed
}

// leads returns the term, and whether it is still valid.
func (s *Scheduler) leads(now time.Time) (term, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term, s.term.id != 0 && (s.opts.Group == "" || now.Before(s.term.ends))
}

// lead acquires or renews the leadership of the group. If it fails, the term expires.
func (s *Scheduler) lead(ctx context.Context) (time.Duration, error) {
	sent := s.now()
	l, err := s.broker.AcquireLeadership(ctx, s.opts.Group, s.process.ID, s.lease)
	if err != nil {
		return 0, err
	}
	before, after := s.updateTerm(l, sent)
	switch {
	case after != before && after != 0:
		s.log.Info("scheduler became the leader of its group", "group", s.opts.Group, "vacant", l.Vacant)
	case after != before:
		s.log.Warn("scheduler lost the leadership of its group", "group", s.opts.Group)
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

// updateTerm applies a reply of Redis, and returns the IDs of the term before and after.
func (s *Scheduler) updateTerm(l rdb.Leadership, sent time.Time) (before, after int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.term.id
	if !l.Leads {
		s.term = term{}
		return before, 0
	}
	if l.Began != before {
		s.term = term{id: l.Began, began: sent, missed: l.Vacant < 0 || l.Vacant > takeoverWindow}
	} else if !s.now().Before(s.term.ends) {
		wake(s.wakeTicks) // it may be sleeping because the term had ended
	}
	s.term.ends, s.term.deadline = sent.Add(s.lease), l.Until
	return before, l.Began
}

// endTerm ends a term that has expired in Redis, and requests the leadership again.
func (s *Scheduler) endTerm(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term.id == id {
		s.term.ends = time.Time{}
		wake(s.wakeLead)
	}
}

// loadTicks loads the last ticks of entries that are new in a term, and stores the cursors of
// entries whose missed ticks are skipped. Entries for which it fails are retried later.
func (s *Scheduler) loadTicks(ctx context.Context, in term) {
	now := s.now()
	s.mu.Lock()
	var entries []*scheduled
	var memories []*rdb.TickRecord
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
		m := &rdb.TickRecord{Entry: e.id, Queue: e.queue, Seed: seed.UnixMilli()}
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
	s.broker.LoadTickRecord(ctx, memories...)
	if err := s.applyTicks(in, entries, memories); err != nil && ctx.Err() == nil {
		s.log.Error("could not load the last ticks of periodic tasks", "error", err)
	}
}

// applyTicks applies loaded ticks. It returns an error if loading has just begun to fail for an
// entry.
func (s *Scheduler) applyTicks(in term, entries []*scheduled, memories []*rdb.TickRecord) (failed error) {
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
