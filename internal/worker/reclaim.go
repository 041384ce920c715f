package worker

import (
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// unknownFetch is a fetch whose reply was lost: Redis may have executed it, or may still do so.
type unknownFetch struct {
	reclaim   rdb.Reclaim
	due       time.Time // when to reclaim its tasks
	started   time.Time // when the current pass over the leases began
	final     time.Time // when the fetch can no longer execute: the first pass after it is the last
	sent      bool      // in a round trip in flight
	reclaimed bool      // at least one pass is complete
}

func (l *lane) planReclaims(t *RoundTrip, now time.Time) {
	for _, d := range l.unknown {
		if d.sent || now.Before(d.due) {
			continue
		}
		d.sent = true
		if d.reclaim.AtStart() {
			d.started = now
		}
		t.reclaims = append(t.reclaims, d)
		t.call.Reclaim = append(t.call.Reclaim, &d.reclaim)
	}
}

func (l *lane) applyReclaims(t *RoundTrip, e *effects, now time.Time) {
	l.unknown = slices.DeleteFunc(l.unknown, func(d *unknownFetch) bool {
		if !slices.Contains(t.reclaims, d) {
			return false
		}
		d.sent = false
		switch {
		case script.Refused(d.reclaim.Err):
			q := l.queue(d.reclaim.Queue)
			l.backOff(q, e, now, d.reclaim.Err)
			d.due = q.retryAt
		case d.reclaim.Err != nil:
			e.cut = d.reclaim.Err
		case !d.reclaim.Done():
			d.due = now // more leases to scan
		case !d.started.Before(d.final):
			if n := d.reclaim.Returned; n > 0 {
				e.logs = append(e.logs, func() {
					l.cfg.Log.Info("reclaimed tasks of a fetch with a lost reply", "queue", d.reclaim.Queue, "tasks", n)
				})
			}
			return true
		default:
			d.reclaimed = true
			d.due = d.final
		}
		return false
	})
	for _, d := range t.reclaims {
		q := l.queue(d.reclaim.Queue)
		if q.phase == unknown && !slices.ContainsFunc(l.unknown, func(d *unknownFetch) bool {
			return d.reclaim.Queue == q.name && !d.reclaimed
		}) {
			q.phase = ready
		}
	}
}
