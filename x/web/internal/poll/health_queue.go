package poll

import (
	"fmt"
	"time"
)

// queue judges one queue.
func (j *judgement) queue(q Queue) {
	if q.Info == nil {
		if q.Err != nil && j.s.Problems.Queues == nil {
			j.addQueue(Trouble, "queue-error", q.Name, fmt.Sprintf("Queue %q cannot be asked: %v", q.Name, q.Err),
				"Look for a shard that is down, or a key of a wrong type (asynq doctor).")
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
	j.overdue(q)
	j.orphaned(q)
	j.failing(q, past)
	j.archiving(q, past)
}

func (j *judgement) paused(q Queue, past *queueMemory) {
	if q.Info.Pending == 0 {
		return
	}
	text := fmt.Sprintf("Queue %q is paused", q.Name)
	if past != nil && j.s.At.Sub(past.pausedSince) >= waitNotice {
		text += fmt.Sprintf(" for at least %s", span(j.s.At.Sub(past.pausedSince)))
	}
	text += fmt.Sprintf(", and %s", count(q.Info.Pending, "task waits", "tasks wait"))
	j.addQueue(Warning, "paused", q.Name, text, "Resume it when its tasks may run again.")
}

// unserved tells of a queue that has something to do, and nobody to do it.
func (j *judgement) unserved(q Queue) {
	by := j.served[q.Name]
	if by.servers > 0 || j.s.Problems.Servers != nil {
		return
	}
	i := q.Info
	why, hint := "no server listens to it", "Start a server, or add the queue to Config.Queues of one."
	if by.stopped > 0 {
		why, hint = "all servers that listen to it were stopped", "They end when their tasks have. Start a new one."
	}
	severity, tasks := Trouble, i.Pending+i.Active
	switch {
	case tasks > 0:
	case i.Retry+i.Scheduled+i.Aggregating > 0:
		severity, tasks = Warning, i.Retry+i.Scheduled+i.Aggregating // they are not due yet
	default:
		return
	}
	text := fmt.Sprintf("Queue %q has %s, and %s", q.Name, count(tasks, "task", "tasks"), why)
	j.addQueue(severity, "no-worker", q.Name, text, hint)
}

func (j *judgement) waiting(q Queue) {
	wait := q.Info.Latency
	severity, ok := graded(wait, waitNotice, waitWarning, waitTrouble)
	if !ok {
		return
	}
	text := fmt.Sprintf("Queue %q: the oldest task waits %s", q.Name, span(wait))
	j.addQueue(severity, "waiting", q.Name, text, "Add servers or raise their Concurrency, or give the queue more weight.")
}

// graded is the severity of a duration, given from when on it has each.
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

// backlog tells of pending tasks that become more all the time, or that will take long.
func (j *judgement) backlog(q Queue, past *queueMemory) {
	i := q.Info
	then, ok := past.before(j.s.At, growthTrend)
	if ok && past.grows(i.Pending) {
		grown := i.Pending - then.pending
		if grown >= growthTasks && float64(grown) >= growthPart*float64(then.pending) {
			minutes := j.s.At.Sub(then.at).Minutes()
			done := i.ProcessedTotal - then.processed
			text := fmt.Sprintf("Queue %q grows: %s pending, %s more than %s ago; %s come a minute, %s are processed",
				q.Name, count(i.Pending, "task is", "tasks are"), number(grown), span(j.s.At.Sub(then.at)),
				number(int(float64(grown+done)/minutes)), number(int(float64(done)/minutes)))
			j.addQueue(Warning, "backlog-grows", q.Name, text, "At this rate it never ends: add servers or raise their Concurrency.")
			return
		}
	}
	if ok && then.pending > i.Pending && i.Pending > 0 {
		perSecond := float64(then.pending-i.Pending) / j.s.At.Sub(then.at).Seconds()
		drain := time.Duration(min(float64(i.Pending)/perSecond, maxDrain.Seconds()) * float64(time.Second))
		if drain >= drainNotice {
			j.addQueue(Notice, "backlog-drains", q.Name,
				fmt.Sprintf("Queue %q: %s pending; at the present rate that takes %s", q.Name, count(i.Pending, "task is", "tasks are"), span(drain)),
				"Add servers or raise their Concurrency if that is too long.")
		}
	}
}

// grows says that each third of the trend ended with more pending tasks than the one before.
func (q *queueMemory) grows(pending int) bool {
	n := len(q.points)
	a, b, c := q.points[0].pending, q.points[n/3].pending, q.points[2*n/3].pending
	return a < b && b < c && c < pending
}

func (j *judgement) saturated(q Queue, past *queueMemory) {
	by := j.served[q.Name]
	if past == nil || past.saturatedSince.IsZero() || q.Info.Pending == 0 || !by.saturated() {
		return
	}
	if full := j.s.At.Sub(past.saturatedSince); full >= saturatedNotice {
		j.addQueue(Notice, "saturated", q.Name,
			fmt.Sprintf("Queue %q: all %s of %s have been busy for %s, and %s",
				q.Name, count(by.slots, "worker", "workers"), count(by.servers, "server", "servers"), span(full),
				count(q.Info.Pending, "task waits", "tasks wait")),
			"Add servers or raise their Concurrency.")
	}
}

// overdue tells of tasks that are due and that nobody makes pending. Paused queues are forwarded too.
func (j *judgement) overdue(q Queue) {
	for _, o := range []struct {
		kind, what string
		late       time.Duration
	}{
		{"scheduled-overdue", "scheduled task", q.Info.ScheduledOverdue}, {"retry-overdue", "task to retry", q.Info.RetryOverdue},
	} {
		if severity, ok := graded(o.late, overdueTrouble, overdueWarning, overdueTrouble); ok {
			j.addQueue(severity, o.kind, q.Name, fmt.Sprintf("Queue %q: a %s has been due for %s", q.Name, o.what, span(o.late)),
				"Only servers that listen to the queue make due tasks pending: see that one runs, and look at its log.")
		}
	}
}

func (j *judgement) orphaned(q Queue) {
	if severity, ok := graded(q.Info.LeaseOverdue, orphanTrouble, orphanWarning, orphanTrouble); ok {
		j.addQueue(severity, "orphaned", q.Name,
			fmt.Sprintf("Queue %q: an active task has had no worker for %s", q.Name, span(q.Info.LeaseOverdue)),
			"Its server crashed or was cut off. Only servers that listen to the queue take it over: see that one runs.")
	}
}

func (j *judgement) failing(q Queue, past *queueMemory) {
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
		fmt.Sprintf("Queue %q: %s of %s within %s failed (%.0f %%)",
			q.Name, number(failed), count(done, "attempt", "attempts"), span(j.s.At.Sub(then.at)), 100*part),
		"Look at the errors of the tasks that wait to be retried, and of archived ones.")
}

func (j *judgement) archiving(q Queue, past *queueMemory) {
	archived := q.Info.Archived
	switch {
	case archived >= archiveLimit:
		j.addQueue(Warning, "archive-full", q.Name,
			fmt.Sprintf("Queue %q: the archive is full (%s); each task that comes in drops the oldest", q.Name, count(archived, "task", "tasks")),
			"Run or delete what is in it.")
	case archived >= archiveNotice:
		j.addQueue(Notice, "archive-nearly-full", q.Name,
			fmt.Sprintf("Queue %q: the archive holds %s; from %s on each one that comes in drops the oldest",
				q.Name, count(archived, "task", "tasks"), number(archiveLimit)),
			"Run or delete what is in it.")
	}
	then, ok := past.before(j.s.At, leastTrend)
	if grown := archived - then.archived; ok && grown >= archivingTasks {
		j.addQueue(Warning, "archiving", q.Name,
			fmt.Sprintf("Queue %q: %s archived within %s", q.Name, count(grown, "task was", "tasks were"), span(j.s.At.Sub(then.at))),
			"They failed for good: look at their errors, and run them again when the reason is gone.")
	}
}
