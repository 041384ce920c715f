package worker

import (
	"slices"
	"time"
)

// This file is when a lane acts without an outcome or a reply: after a marker, a poll or a delay.

// woken records that a marker of a queue was popped.
func (l *lane) woken(name string, now time.Time) {
	q := l.queue(name)
	q.wake()
	q.wakePending = true
	l.trickle = l.trickle || now.Sub(l.lastWake) <= maxHold
	l.lastWake = now
}

// holds reports whether the outcome of the only finished attempt waits for the next marker: if
// tasks trickle in one by one, each would cost Redis two round trips instead of one. Waiting ends
// with the first marker that does not come in time.
func (l *lane) holds(now time.Time) bool {
	waits := l.trickle && len(l.finished) == 1 && len(l.unsettled)+len(l.unknown) == 0 && l.finished[0].canWait() &&
		!slices.ContainsFunc(l.queues, func(q *queueState) bool {
			return q.phase != empty || q.capped() || !l.demand.wants(q.name)
		})
	switch {
	case !waits:
		l.holdUntil = time.Time{}
	case l.holdUntil.IsZero():
		l.holdUntil = now.Add(maxHold)
	case !now.Before(l.holdUntil):
		waits, l.trickle, l.holdUntil = false, false, time.Time{}
	}
	return waits
}

// pollDelay returns how long there is nothing to do unless the loop is woken.
func (l *lane) pollDelay(now time.Time) time.Duration {
	if !l.gate.None() {
		return untilWoken // the first round trip to return continues
	}
	due := l.nextDue(now)
	if due.IsZero() {
		return untilWoken
	}
	return max(due.Sub(now), time.Millisecond)
}

// nextDue returns when there is work without a wake; the zero time if there is none.
func (l *lane) nextDue(now time.Time) (due time.Time) {
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	for _, t := range []time.Time{l.holdUntil, l.demand.retryAt(now)} {
		if !t.IsZero() {
			sooner(t)
		}
	}
	for _, d := range l.unknown {
		sooner(d.due)
	}
	for _, q := range l.queues {
		if now.Before(q.retryAt) { // also after StopFetching: outcomes may be held back until then
			sooner(q.retryAt)
		}
		if q.partitions != nil && l.demand.wants(q.name) && q.phase != unknown && q.phase != paused {
			if len(q.again) > 0 {
				sooner(now)
			}
			if q.phase != ready && !q.limitedUntil.IsZero() {
				sooner(q.limitedUntil)
			}
			if !l.demand.accepts(q.name) {
				sooner(now.Add(l.cfg.CheckInterval - since(q.sortedAt)))
			}
		}
		if q.idle() && l.demand.wants(q.name) {
			sooner(l.nextPoll)
			if now.Before(q.wakeBackoffUntil) {
				sooner(q.wakeBackoffUntil) // then it waits for its marker again
			}
		}
	}
	return due
}

// needsWake reports whether there is work that neither a round trip in flight nor the next tick of
// a loop, at idleUntil, would do in time.
func (l *lane) needsWake(now, idleUntil time.Time) bool {
	if !l.gate.None() {
		return false
	}
	if len(l.finished) > 0 && l.holdUntil.IsZero() {
		return true
	}
	fetchable := func(q *queueState) bool { return q.fetchable(now) && l.demand.wants(q.name) }
	if slices.ContainsFunc(l.queues, fetchable) && l.demand.anyFree() {
		return true
	}
	next := l.nextDue(now)
	return !next.IsZero() && (idleUntil.IsZero() || next.Before(idleUntil))
}

// polled returns the idle queues to check for tasks without a marker, if a check is due.
func (l *lane) polled(now time.Time) (names []string) {
	if now.Before(l.nextPoll) {
		return nil
	}
	l.nextPoll = now.Add(l.cfg.CheckInterval)
	for _, q := range l.queues {
		if q.idle() && !now.Before(q.retryAt) && l.demand.accepts(q.name) {
			names = append(names, q.name)
		}
	}
	return names
}

// awaited returns the queues whose markers announce tasks that this process can take.
func (l *lane) awaited(now time.Time) (names []string) {
	for _, q := range l.queues {
		if q.wantsMarker(now) && l.demand.wants(q.name) {
			names = append(names, q.name)
		}
	}
	if len(names) > 0 && !l.demand.anyFree() {
		return nil
	}
	return names
}

// unusedMarkers returns the queues whose markers were popped, but whose tasks cannot be accepted
// any more: no slot is free, or the server stops. Another server takes them.
func (l *lane) unusedMarkers() (names []string) {
	for _, q := range l.queues {
		if q.wakePending && !l.demand.accepts(q.name) {
			q.wakePending = false
			names = append(names, q.name)
		}
	}
	return names
}
