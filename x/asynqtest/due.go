package asynqtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

// queues returns the queues to drain.
func (d *drain) queues() (names []string) {
	d.t.Helper()
	names, err := d.b.inspector.Queues()
	if err != nil {
		d.t.Fatalf("asynqtest: list queues: %v", err)
	}
	if d.cfg.Queues == nil {
		return names
	}
	return slices.DeleteFunc(names, func(q string) bool { return d.cfg.Queues[q] < 1 })
}

// anything reports whether a queue that is not paused has tasks, according to is.
func (d *drain) anything(queues []string, is func(*asynq.QueueInfo) bool) bool {
	d.t.Helper()
	inspector := d.b.inspector.WithMemorySamples(0) // sampling for the memory estimate would be the largest part of the cost
	for _, name := range queues {
		q, err := inspector.GetQueueInfo(name)
		if err != nil {
			d.t.Fatalf("asynqtest: read queue %q: %v", name, err)
		}
		if !q.Paused && is(q) {
			return true
		}
	}
	return false
}

// due reports whether the queue has tasks that a server would run now.
func (d *drain) due(q *asynq.QueueInfo) bool {
	return q.Pending > 0 || q.Active > 0 ||
		q.Scheduled > 0 && d.firstDue(q.Queue, d.b.inspector.ListScheduledTasks) ||
		q.Retry > 0 && d.firstDue(q.Queue, d.b.inspector.ListRetryTasks)
}

// firstDue reports whether the first task of a list is due.
func (d *drain) firstDue(queue string, list listing) bool {
	tasks, err := list(queue, asynq.PageSize(1))
	if err != nil {
		d.t.Fatalf("asynqtest: read queue %q: %v", queue, err)
	}
	return len(tasks) > 0 && !tasks[0].NextProcessAt.After(d.b.Now())
}

// grouped reports whether the queue has tasks that wait for aggregation.
func grouped(q *asynq.QueueInfo) bool { return q.Aggregating > 0 }

// groups returns the tasks that wait for aggregation now. Tasks that join them later do not count.
func (d *drain) groups(queues []string) *grouping {
	d.t.Helper()
	var g grouping
	for _, queue := range queues {
		if !d.anything([]string{queue}, grouped) {
			continue
		}
		tasks, err := everyPage(d.b.aggregating, queue)
		if err != nil {
			d.t.Fatalf("asynqtest: read groups of queue %q: %v", queue, err)
		}
		g = append(g, tasks...)
	}
	return &g
}

// grouping is a set of tasks to aggregate.
type grouping []*asynq.TaskInfo

// left reports whether some of the tasks still wait. It drops those that do not.
func (g *grouping) left(d *drain) bool {
	for ; len(*g) > 0; *g = (*g)[1:] {
		info, err := d.b.find((*g)[0].Queue, (*g)[0].ID)
		if err != nil {
			d.t.Fatalf("asynqtest: read task %s: %v", (*g)[0].ID, err)
		}
		if info != nil && info.State == asynq.TaskStateAggregating {
			return true
		}
	}
	return false
}

// inventory formats tasks of the queues.
func (d *drain) inventory(queues []string) string {
	tasks, err := d.b.tasks()
	if err != nil {
		return " " + err.Error()
	}
	tasks = slices.DeleteFunc(tasks, func(info *asynq.TaskInfo) bool {
		return !slices.Contains(queues, info.Queue) || info.State == asynq.TaskStateCompleted || info.State == asynq.TaskStateArchived
	})
	var text strings.Builder
	for i, info := range tasks {
		if i == mostShown {
			fmt.Fprintf(&text, "\n  … and %d more", len(tasks)-i)
			break
		}
		fmt.Fprintf(&text, "\n  %s", headline(info, d.b.Now()))
	}
	return text.String()
}
