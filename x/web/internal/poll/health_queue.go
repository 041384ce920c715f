package poll

import (
	"cmp"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// queue diagnoses one queue.
func (j *diagnosis) queue(q Queue) {
	if q.Info == nil {
		if q.Err != nil && j.s.Problems.Queues == nil {
			j.addQueue(Trouble, "queue-error", q.Name, fmt.Sprintf("Could not read queue %q: %s", q.Name, show.Cause(q.Err)),
				"Possible causes: a shard is down, or a key has the wrong type (run asynq doctor).")
		}
		return
	}
	past := j.m.queues[q.Name]
	if q.Info.Paused {
		j.paused(q, past)
	} else {
		j.unserved(q)
		j.waiting(q)
		j.backlog(q, past)
		j.saturated(q, past)
	}
	j.unhandled(q)
	j.overdue(q)
	j.orphaned(q)
	j.failing(q, past)
	j.archiving(q, past)
}

func (j *diagnosis) paused(q Queue, past *queueMemory) {
	if q.Info.Pending == 0 {
		return
	}
	text := fmt.Sprintf("Queue %q is paused", q.Name)
	if past != nil && j.s.At.Sub(past.pausedSince) >= waitNotice {
		text += fmt.Sprintf(" for at least %s", span(j.s.At.Sub(past.pausedSince)))
	}
	text += fmt.Sprintf(", and %s", count(q.Info.Pending, "task is waiting", "tasks are waiting"))
	j.addQueue(Warning, "paused", q.Name, text, "Resume the queue to run its tasks.")
}

// unserved reports a queue that has tasks and no servers.
func (j *diagnosis) unserved(q Queue) {
	by := j.served[q.Name]
	if by.servers > 0 || j.s.Problems.Servers != nil {
		return
	}
	i := q.Info
	why, hint := "no server or worker processes it", "Start a server or worker for the queue, or add it to Config.Queues of a server."
	if by.stopped > 0 {
		why, hint = "all servers that process it are stopping", "They exit when their active tasks finish. Start a new server."
	}
	severity, tasks := Trouble, i.Pending+i.Active
	switch {
	case tasks > 0:
	case i.Retry+i.Scheduled+i.Aggregating > 0:
		severity, tasks = Warning, i.Retry+i.Scheduled+i.Aggregating // not due yet
	default:
		return
	}
	text := fmt.Sprintf("Queue %q has %s, but %s", q.Name, count(tasks, "task", "tasks"), why)
	j.addQueue(severity, "no-worker", q.Name, text, hint)
}

// unhandled reports types that no server of the queue handles.
func (j *diagnosis) unhandled(q Queue) {
	if len(q.Unhandled) == 0 {
		return
	}
	first := q.Unhandled[0]
	text := fmt.Sprintf("Queue %q: no running server handles type %q; at least %s waiting", q.Name, first.Type, count(first.Tasks, "task is", "tasks are"))
	if n := len(q.Unhandled) - 1; n > 0 {
		text += ", and those of " + count(n, "other type", "other types")
	}
	j.addQueue(Warning, "unhandled-type", q.Name, text, "Start a server with a handler for the type, or delete the tasks.")
}

func (j *diagnosis) waiting(q Queue) {
	wait := q.Info.Latency
	severity, ok := graded(wait, waitNotice, waitWarning, waitTrouble)
	if !ok {
		return
	}
	text := fmt.Sprintf("Queue %q: the oldest task has been waiting for %s", q.Name, span(wait))
	j.addQueue(severity, "waiting", q.Name, text, "Add servers, raise their Concurrency, or raise the priority of the queue.")
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
func (j *diagnosis) backlog(q Queue, past *queueMemory) {
	i := q.Info
	then, ok := past.before(j.s.At, growthTrend)
	if ok && past.grows(i.Pending) {
		grown := i.Pending - then.pending
		if grown >= growthTasks && float64(grown) >= growthPart*float64(then.pending) {
			minutes := j.s.At.Sub(then.at).Minutes()
			done := i.ProcessedTotal - then.processed
			text := fmt.Sprintf("Queue %q is growing: %s pending, %s more than %s ago; %s arriving/min, %s processed/min",
				q.Name, count(i.Pending, "task is", "tasks are"), number(grown), span(j.s.At.Sub(then.at)),
				number(int(float64(grown+done)/minutes)), number(int(float64(done)/minutes)))
			j.addQueue(Warning, "backlog-grows", q.Name, text, "At this rate it will never catch up. Add servers or raise their Concurrency.")
			return
		}
	}
	if ok && then.pending > i.Pending && i.Pending > 0 {
		perSecond := float64(then.pending-i.Pending) / j.s.At.Sub(then.at).Seconds()
		drain := time.Duration(min(float64(i.Pending)/perSecond, maxDrain.Seconds()) * float64(time.Second))
		if drain >= drainNotice {
			j.addQueue(Notice, "backlog-drains", q.Name,
				fmt.Sprintf("Queue %q: %s pending; at the current rate, processing them takes %s", q.Name, count(i.Pending, "task is", "tasks are"), span(drain)),
				"If that is too long, add servers or raise their Concurrency.")
		}
	}
}

// grows reports whether each third of the trend ended with more pending tasks than the one before.
func (q *queueMemory) grows(pending int) bool {
	n := len(q.points)
	a, b, c := q.points[0].pending, q.points[n/3].pending, q.points[2*n/3].pending
	return a < b && b < c && c < pending
}

func (j *diagnosis) saturated(q Queue, past *queueMemory) {
	by := j.served[q.Name]
	if past == nil || past.saturatedSince.IsZero() || q.Info.Pending == 0 || !by.saturated() {
		return
	}
	if full := j.s.At.Sub(past.saturatedSince); full >= saturatedNotice {
		j.addQueue(Notice, "saturated", q.Name,
			fmt.Sprintf("Queue %q: all %s of %s have been busy for %s; %s",
				q.Name, count(by.slots, "worker", "workers"), count(by.servers, "server", "servers"), span(full),
				count(q.Info.Pending, "task is waiting", "tasks are waiting")),
			"Add servers or raise their Concurrency.")
	}
}

// overdue reports due tasks that no server moves to pending. Servers forward the tasks of paused
// queues as well.
func (j *diagnosis) overdue(q Queue) {
	for _, o := range []struct {
		kind, what string
		late       time.Duration
	}{
		{"scheduled-overdue", "scheduled task", q.Info.ScheduledOverdue}, {"retry-overdue", "task to retry", q.Info.RetryOverdue},
	} {
		if severity, ok := graded(o.late, overdueTrouble, overdueWarning, overdueTrouble); ok {
			j.addQueue(severity, o.kind, q.Name, fmt.Sprintf("Queue %q: a %s has been due for %s", q.Name, o.what, span(o.late)),
				"Only servers that process the queue move due tasks to pending. Check that one is running, and check its log.")
		}
	}
}

func (j *diagnosis) orphaned(q Queue) {
	if severity, ok := graded(q.Info.LeaseOverdue, orphanTrouble, orphanWarning, orphanTrouble); ok {
		j.addQueue(severity, "orphaned", q.Name,
			fmt.Sprintf("Queue %q: the lease of an active task expired %s ago", q.Name, span(q.Info.LeaseOverdue)),
			"Its server crashed or lost its connection. Only servers that process the queue recover the task. Check that one is running.")
	}
}

func (j *diagnosis) failing(q Queue, past *queueMemory) {
	then, ok := past.before(j.s.At, leastTrend)
	if !ok {
		return
	}
	done, failed := q.Info.ProcessedTotal-then.processed, q.Info.FailedTotal-then.failed
	if done < failingAttempts {
		return
	}
	part := float64(failed) / float64(done)
	if part <= failingWarning {
		return
	}
	severity := Warning
	if part >= failingTrouble {
		severity = Trouble
	}
	j.addQueue(severity, "failing", q.Name,
		fmt.Sprintf("Queue %q: %s of %s failed within %s (%.0f %%)",
			q.Name, number(failed), count(done, "attempt", "attempts"), span(j.s.At.Sub(then.at)), 100*part),
		"See the Errors page for the most frequent errors.")
}

func (j *diagnosis) archiving(q Queue, past *queueMemory) {
	archived, limit := q.Info.Archived, cmp.Or(q.Info.Archive.MaxTasks, asynq.ArchiveMaxTasks)
	switch {
	case archived >= limit:
		j.addQueue(Warning, "archive-full", q.Name,
			fmt.Sprintf("Queue %q: the archive is full (%s); each newly archived task deletes the oldest", q.Name, count(archived, "task", "tasks")),
			"Run or delete archived tasks.")
	case float64(archived) >= archiveNotice*float64(limit):
		j.addQueue(Notice, "archive-nearly-full", q.Name,
			fmt.Sprintf("Queue %q: the archive has %s; at %s, each newly archived task deletes the oldest",
				q.Name, count(archived, "task", "tasks"), number(limit)),
			"Run or delete archived tasks.")
	}
	then, ok := past.before(j.s.At, leastTrend)
	if grown := archived - then.archived; ok && grown >= archivingTasks {
		j.addQueue(Warning, "archiving", q.Name,
			fmt.Sprintf("Queue %q: %s archived within %s", q.Name, count(grown, "task was", "tasks were"), span(j.s.At.Sub(then.at))),
			"Retries exhausted. Fix the cause, then run them again.")
	}
}
