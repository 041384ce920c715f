package health

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// maxDrain bounds how long a backlog is said to take.
const maxDrain = 365 * 24 * time.Hour

// queue finds the problems of one queue.
func (d *diagnosis) queue(q Queue) {
	if q.Info == nil {
		if q.Err != nil && d.in.Problems.Queues == nil {
			d.add(finding{
				kind: "queue-error", severity: Trouble, queue: q.Name,
				text: fmt.Sprintf("Could not read queue %q: %s", q.Name, reason(q.Err)),
				hint: "Possible causes: a shard is down, or a key has the wrong type (run asynq doctor).",
			})
		}
		return
	}
	past := d.m.queues[q.Name]
	if q.Info.Paused {
		d.paused(q, past)
	} else {
		d.unserved(q)
		d.waiting(q)
		d.backlog(q, past)
		d.saturated(q, past)
	}
	d.unhandled(q)
	d.overdue(q)
	d.orphaned(q)
	d.failing(q, past)
	d.archiving(q, past)
}

func (d *diagnosis) paused(q Queue, past *queueMemory) {
	waiting := q.Info.Pending + q.Info.Held
	if waiting == 0 {
		return
	}
	text := fmt.Sprintf("Queue %q is paused", q.Name)
	f := finding{
		kind: "paused", severity: Warning, queue: q.Name, hint: "Resume the queue to run its tasks.",
		series: &Series{Metric: "pending", Queue: q.Name}, actions: []Action{{Kind: ResumeQueue, Queue: q.Name}},
	}
	if past != nil && d.in.At.Sub(past.pausedSince) >= d.s.WaitNotice {
		text += fmt.Sprintf(" for at least %s", span(d.in.At.Sub(past.pausedSince)))
		f.since = past.pausedSince
	}
	text += fmt.Sprintf(", and %s", count(waiting, "task is waiting", "tasks are waiting"))
	if then, ok := past.before(d.in.At, d.s.Trend, pointGap); ok && q.Info.Pending > then.pending {
		text += fmt.Sprintf(", %s more than %s ago", number(q.Info.Pending-then.pending), span(d.in.At.Sub(then.at)))
	}
	f.text = text
	d.add(f)
}

// unserved reports a queue that has tasks and no servers.
func (d *diagnosis) unserved(q Queue) {
	by := d.served[q.Name]
	if by.servers > 0 || d.in.Problems.Servers != nil {
		return
	}
	i := q.Info
	why, hint := "no server or worker processes it", "Start a server or worker for the queue, or add it to Config.Queues of a server."
	if by.stopped > 0 {
		why, hint = "all servers that process it are stopping", "They exit when their active tasks finish. Start a new server."
	}
	severity, tasks := Trouble, i.Pending+i.Held+i.Active
	switch {
	case tasks > 0:
	case i.Retry+i.Scheduled+i.Aggregating > 0:
		severity, tasks = Warning, i.Retry+i.Scheduled+i.Aggregating // not due yet
	default:
		return
	}
	d.add(finding{
		kind: "no-worker", severity: severity, queue: q.Name, hint: hint, series: &Series{Metric: "pending", Queue: q.Name},
		text: fmt.Sprintf("Queue %q has %s, but %s", q.Name, count(tasks, "task", "tasks"), why),
	})
}

// unhandled reports types that no server of the queue handles.
func (d *diagnosis) unhandled(q Queue) {
	if len(q.Unhandled) == 0 {
		return
	}
	first := q.Unhandled[0]
	text := fmt.Sprintf("Queue %q: no running server handles type %q; at least %s waiting", q.Name, first.Type, count(first.Tasks, "task is", "tasks are"))
	if n := len(q.Unhandled) - 1; n > 0 {
		text += ", and those of " + count(n, "other type", "other types")
	}
	d.add(finding{
		kind: "unhandled-type", severity: Warning, queue: q.Name, text: text,
		hint: "Start a server with a handler for the type, or delete the tasks.",
	})
}

func (d *diagnosis) waiting(q Queue) {
	wait := q.Info.Latency
	severity, ok := graded(wait, d.s.WaitNotice, d.s.WaitWarning, d.s.WaitTrouble)
	if !ok {
		return
	}
	d.add(finding{
		kind: "waiting", severity: severity, queue: q.Name, since: d.in.At.Add(-wait), series: &Series{Metric: "latency", Queue: q.Name},
		text: fmt.Sprintf("Queue %q: the oldest task has been waiting for %s", q.Name, span(wait)),
		hint: "Add servers, raise their Concurrency, or raise the priority of the queue.",
	})
}

// graded returns the severity of a duration, by the thresholds of each severity.
func graded(d, notice, warning, trouble time.Duration) (Severity, bool) {
	switch {
	case d >= trouble:
		return Trouble, true
	case d >= warning:
		return Warning, true
	default:
		return Notice, d >= notice
	}
}

// backlog reports a growing backlog, or one that takes long to process.
func (d *diagnosis) backlog(q Queue, past *queueMemory) {
	i := q.Info
	series := &Series{Metric: "pending", Queue: q.Name}
	then, ok := past.before(d.in.At, d.s.Trend, d.s.Trend*4/5)
	if ok && past.grows(i.Pending) {
		grown := i.Pending - then.pending
		if grown >= d.s.GrowthTasks && float64(grown) >= d.s.GrowthShare*float64(then.pending) {
			minutes := d.in.At.Sub(then.at).Minutes()
			done := i.ProcessedTotal - then.processed
			d.add(finding{
				kind: "backlog-grows", severity: Warning, queue: q.Name, since: then.at, series: series,
				text: fmt.Sprintf("Queue %q is growing: %s pending, %s more than %s ago; %s arriving/min, %s processed/min",
					q.Name, count(i.Pending, "task is", "tasks are"), number(grown), span(d.in.At.Sub(then.at)),
					number(int(float64(grown+done)/minutes)), number(int(float64(done)/minutes))),
				hint: "At this rate it will never catch up. Add servers or raise their Concurrency.",
			})
			return
		}
	}
	if ok && then.pending > i.Pending && i.Pending > 0 {
		perSecond := float64(then.pending-i.Pending) / d.in.At.Sub(then.at).Seconds()
		drain := time.Duration(min(float64(i.Pending)/perSecond, maxDrain.Seconds()) * float64(time.Second))
		if drain >= d.s.DrainNotice {
			d.add(finding{
				kind: "backlog-drains", severity: Notice, queue: q.Name, series: series,
				text: fmt.Sprintf("Queue %q: %s pending; at the current rate, processing them takes %s", q.Name, count(i.Pending, "task is", "tasks are"), span(drain)),
				hint: "If that is too long, add servers or raise their Concurrency.",
			})
		}
	}
}

func (d *diagnosis) saturated(q Queue, past *queueMemory) {
	by := d.served[q.Name]
	if past == nil || past.saturatedSince.IsZero() || q.Info.Pending == 0 || !by.saturated() {
		return
	}
	if full := d.in.At.Sub(past.saturatedSince); full >= d.s.SaturatedNotice {
		d.add(finding{
			kind: "saturated", severity: Notice, queue: q.Name, since: past.saturatedSince,
			text: fmt.Sprintf("Queue %q: all %s of %s have been busy for %s; %s",
				q.Name, count(by.slots, "slot", "slots"), count(by.servers, "server", "servers"), span(full),
				count(q.Info.Pending, "task is waiting", "tasks are waiting")),
			hint: "Add servers or raise their Concurrency.",
		})
	}
}

// overdue reports due tasks that no server moves to pending. Servers forward the tasks of paused
// queues as well.
func (d *diagnosis) overdue(q Queue) {
	for _, o := range []struct {
		kind, what string
		late       time.Duration
	}{
		{"scheduled-overdue", "scheduled task", q.Info.ScheduledOverdue}, {"retry-overdue", "task to retry", q.Info.RetryOverdue},
	} {
		if severity, ok := graded(o.late, d.s.OverdueTrouble, d.s.OverdueWarning, d.s.OverdueTrouble); ok {
			d.add(finding{
				kind: o.kind, severity: severity, queue: q.Name, since: d.in.At.Add(-o.late),
				text: fmt.Sprintf("Queue %q: a %s has been due for %s", q.Name, o.what, span(o.late)),
				hint: "Only servers that process the queue move due tasks to pending. Check that one is running, and check its log.",
			})
		}
	}
}

func (d *diagnosis) orphaned(q Queue) {
	if severity, ok := graded(q.Info.LeaseOverdue, d.s.OrphanTrouble, d.s.OrphanWarning, d.s.OrphanTrouble); ok {
		d.add(finding{
			kind: "orphaned", severity: severity, queue: q.Name, since: d.in.At.Add(-q.Info.LeaseOverdue),
			text: fmt.Sprintf("Queue %q: the lease of an active task expired %s ago", q.Name, span(q.Info.LeaseOverdue)),
			hint: "Its server crashed or lost its connection. Only servers that process the queue recover the task. Check that one is running.",
		})
	}
}

// leastData is the minimum time of data for rules on failures and archiving.
const leastData = time.Minute

func (d *diagnosis) failing(q Queue, past *queueMemory) {
	then, ok := past.before(d.in.At, d.s.Trend, leastData)
	if !ok {
		return
	}
	done, failed := q.Info.ProcessedTotal-then.processed, q.Info.FailedTotal-then.failed
	severity, fails := d.failure(int64(done), int64(failed))
	since(&past.failingSince, fails, then.at)
	if !fails {
		return
	}
	d.add(finding{
		kind: "failing", severity: severity, queue: q.Name, since: past.failingSince, series: &Series{Metric: "failed", Queue: q.Name},
		text: fmt.Sprintf("Queue %q: %s of %s failed within %s (%.0f %%)",
			q.Name, number(failed), count(done, "attempt", "attempts"), span(d.in.At.Sub(then.at)), 100*float64(failed)/float64(done)),
		hint:    "See the most frequent errors.",
		actions: []Action{{Kind: SeeErrors, Queue: q.Name}},
	})
}

// failure returns the severity of a number of failed attempts.
func (d *diagnosis) failure(attempts, failed int64) (Severity, bool) {
	if attempts < int64(d.s.FailingAttempts) {
		return Notice, false
	}
	part := float64(failed) / float64(attempts)
	if part >= d.s.FailingTrouble {
		return Trouble, true
	}
	return Warning, part > d.s.FailingWarning
}

func (d *diagnosis) archiving(q Queue, past *queueMemory) {
	archived, limit := q.Info.Archived, cmp.Or(q.Info.Archive.MaxTasks, asynq.ArchiveMaxTasks)
	series := &Series{Metric: "archived", Queue: q.Name}
	link := Link{Page: PageTasks, Queue: q.Name, State: "archived"}
	actions := []Action{{Kind: SeeErrors, Queue: q.Name}, {Kind: RunArchived, Queue: q.Name}}
	switch {
	case archived >= limit:
		d.add(finding{
			kind: "archive-full", severity: Warning, queue: q.Name, link: link, series: series, actions: actions,
			text: fmt.Sprintf("Queue %q: the archive is full (%s); each newly archived task deletes the oldest", q.Name, count(archived, "task", "tasks")),
			hint: "Run or delete archived tasks.",
		})
	case float64(archived) >= d.s.ArchiveNotice*float64(limit):
		d.add(finding{
			kind: "archive-nearly-full", severity: Notice, queue: q.Name, link: link, series: series, actions: actions,
			text: fmt.Sprintf("Queue %q: the archive has %s; at %s, each newly archived task deletes the oldest",
				q.Name, count(archived, "task", "tasks"), number(limit)),
			hint: "Run or delete archived tasks.",
		})
	}
	then, ok := past.before(d.in.At, d.s.Trend, leastData)
	if grown := archived - then.archived; ok && grown >= d.s.ArchivingTasks {
		d.add(finding{
			kind: "archiving", severity: Warning, queue: q.Name, link: link, since: then.at, series: series, actions: actions,
			text: fmt.Sprintf("Queue %q: %s archived within %s", q.Name, count(grown, "task was", "tasks were"), span(d.in.At.Sub(then.at))),
			hint: "Retries exhausted. Fix the cause, then run them again.",
		})
	}
}
