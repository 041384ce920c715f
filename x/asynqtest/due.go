package asynqtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
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
		q.Retry > 0 && d.firstDue(q.Queue, d.b.inspector.ListRetryTasks) ||
		q.Held > 0 && d.partitionDue(q)
}

// partitionDue reports whether a partition has held tasks that a server would run now. Nothing is
// active: an active task of a partition is one whose place the server has not released yet, or that
// keeps it for its retry.
func (d *drain) partitionDue(q *asynq.QueueInfo) bool {
	d.t.Helper()
	cfg := d.cfg.QueueConfigs[q.Queue].Partitions
	if cfg == nil {
		return false // a server without partitions runs them after a day
	}
	var retries map[string]bool
	if cfg.Ordered && q.Retry > 0 {
		retries = d.retries(q.Queue, cfg.ByType)
	}
	for p, err := range d.b.inspector.Partitions(context.Background(), q.Queue) {
		switch {
		case errors.Is(err, asynq.ErrQueueNotFound):
			return false // it was deleted in the meantime
		case err != nil:
			d.t.Fatalf("asynqtest: read partitions of queue %q: %v", q.Queue, err)
		case p.Held > 0 && !p.Settings.Paused && !retries[p.Key] && (!p.IsBlocked || p.Active > 0 || !p.CheckAt.After(d.b.Now())):
			return true
		}
	}
	return false
}

// retries returns the partitions with tasks that wait for their retry.
func (d *drain) retries(queue string, byType bool) map[string]bool {
	d.t.Helper()
	tasks, err := everyPage(d.b.inspector.ListRetryTasks, queue)
	if err != nil {
		d.t.Fatalf("asynqtest: read queue %q: %v", queue, err)
	}
	keys := make(map[string]bool)
	for _, info := range tasks {
		if byType {
			keys[info.Type] = true
		} else {
			keys[info.PartitionKey] = true
		}
	}
	return keys
}

// advanceFlows starts the nodes of flows that may start. The server may have stopped before it did.
func (d *drain) advanceFlows() {
	d.t.Helper()
	ctx, inspector := context.Background(), flow.Inspect(d.b.inspector)
	for skip := 0; ; skip += flowPage {
		flows, _, err := inspector.List(ctx, skip, flowPage)
		for _, f := range flows {
			if err == nil && f.Ended.IsZero() {
				_, err = inspector.Advance(ctx, f.ID)
			}
		}
		if err != nil {
			d.t.Fatalf("asynqtest: advance flows: %v", err)
		}
		if len(flows) < flowPage {
			return
		}
	}
}

// flowPage is the number of flows that are read at once.
const flowPage = 100

// firstDue reports whether the first task of a list that is not held is due.
func (d *drain) firstDue(queue string, list listing) bool {
	d.t.Helper()
	for page := 1; ; page++ {
		tasks, err := list(queue, asynq.Page(page), asynq.PageSize(firstSize))
		if err != nil {
			d.t.Fatalf("asynqtest: read queue %q: %v", queue, err)
		}
		for _, info := range tasks {
			if !info.IsHeld {
				return !info.NextProcessAt.After(d.b.Now())
			}
		}
		if len(tasks) < firstSize {
			return false
		}
	}
}

// firstSize is the number of tasks that firstDue reads at once.
const firstSize = 10

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
