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
		d.t.Fatalf("asynqtest: listing the queues: %v", err)
	}
	if d.cfg.Queues == nil {
		return names
	}
	return slices.DeleteFunc(names, func(q string) bool { return d.cfg.Queues[q] < 1 })
}

// anything reports whether one of the queues, other than those that are paused, has what is asked for.
func (d *drain) anything(queues []string, asked func(*asynq.QueueInfo) bool) bool {
	d.t.Helper()
	look := d.b.inspector.WithMemorySamples(0) // the estimate of the memory costs more than all the rest
	for _, name := range queues {
		q, err := look.GetQueueInfo(name)
		if err != nil {
			d.t.Fatalf("asynqtest: looking at queue %q: %v", name, err)
		}
		if !q.Paused && asked(q) {
			return true
		}
	}
	return false
}

// due reports whether the queue has tasks that a server runs now.
func (d *drain) due(q *asynq.QueueInfo) bool {
	return q.Pending > 0 || q.Active > 0 ||
		q.Scheduled > 0 && d.firstDue(q.Queue, d.b.inspector.ListScheduledTasks) ||
		q.Retry > 0 && d.firstDue(q.Queue, d.b.inspector.ListRetryTasks)
}

// firstDue reports whether the time of the first task of a list has come.
func (d *drain) firstDue(queue string, list listing) bool {
	tasks, err := list(queue, asynq.PageSize(1))
	if err != nil {
		d.t.Fatalf("asynqtest: looking at queue %q: %v", queue, err)
	}
	return len(tasks) > 0 && !tasks[0].NextProcessAt.After(d.b.Now())
}

// grouped reports whether the queue has tasks that wait to be aggregated.
func grouped(q *asynq.QueueInfo) bool { return q.Aggregating > 0 }

// groups returns the tasks that wait to be aggregated now: others that join them later are not due with them.
func (d *drain) groups(queues []string) *grouping {
	d.t.Helper()
	var g grouping
	for _, queue := range queues {
		if !d.anything([]string{queue}, grouped) {
			continue
		}
		tasks, err := everyPage(d.b.aggregating, queue)
		if err != nil {
			d.t.Fatalf("asynqtest: looking at the groups of queue %q: %v", queue, err)
		}
		g = append(g, tasks...)
	}
	return &g
}

// grouping are tasks that are to be aggregated.
type grouping []*asynq.TaskInfo

// left reports whether some are still waiting. It forgets those that are not.
func (g *grouping) left(d *drain) bool {
	for ; len(*g) > 0; *g = (*g)[1:] {
		info, err := d.b.find((*g)[0].Queue, (*g)[0].ID)
		if err != nil {
			d.t.Fatalf("asynqtest: looking at task %s: %v", (*g)[0].ID, err)
		}
		if info != nil && info.State == asynq.TaskStateAggregating {
			return true
		}
	}
	return false
}

// inventory shows tasks of the queues.
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
