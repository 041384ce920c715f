package asynqtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/asynq-go/asynq"
)

// Enqueued returns all tasks of all queues in all states. They are sorted by queue, then by state
// (pending, aggregating, scheduled, retry, active, completed, archived), then next to run first. It
// does not include completed tasks without a Retention, because they are deleted.
func (b *Broker) Enqueued() []*asynq.TaskInfo {
	b.t.Helper()
	tasks, err := b.tasks()
	if err != nil {
		b.t.Fatalf("asynqtest: list tasks: %v", err)
	}
	return tasks
}

// listing is a method of the Inspector that lists tasks of a queue.
type listing func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)

func (b *Broker) tasks() (all []*asynq.TaskInfo, err error) {
	queues, err := b.inspector.Queues()
	if err != nil {
		return nil, err
	}
	i := b.inspector
	for _, queue := range queues {
		for _, list := range []listing{
			i.ListPendingTasks, b.aggregating, i.ListScheduledTasks, i.ListRetryTasks, i.ListActiveTasks, i.ListCompletedTasks, i.ListArchivedTasks,
		} {
			tasks, err := everyPage(list, queue)
			if err != nil {
				return nil, err
			}
			all = append(all, tasks...)
		}
	}
	return all, nil
}

// aggregating lists the tasks of a page of each group of a queue.
func (b *Broker) aggregating(queue string, opts ...asynq.ListOption) (all []*asynq.TaskInfo, err error) {
	groups, err := b.inspector.Groups(queue)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(groups, func(a, b *asynq.GroupInfo) int { return cmp.Compare(a.Group, b.Group) })
	for _, g := range groups {
		tasks, err := b.inspector.ListAggregatingTasks(queue, g.Group, opts...)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

const pageSize = 500

func everyPage(list listing, queue string) (all []*asynq.TaskInfo, err error) {
	for page := 1; ; page++ {
		tasks, err := list(queue, asynq.Page(page), asynq.PageSize(pageSize))
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", queue, err)
		}
		all = append(all, tasks...)
		if len(tasks) < pageSize {
			return all, nil
		}
	}
}

// find returns a task, or nil if it does not exist.
func (b *Broker) find(queue, id string) (*asynq.TaskInfo, error) {
	info, err := b.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil
	}
	return info, err
}
