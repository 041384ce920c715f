package asynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// TaskPage is a part of the tasks of a queue in one state.
type TaskPage struct {
	// Tasks of the page.
	Tasks []*TaskInfo

	// Next is the cursor of the next page; empty where there is none.
	Next string

	// Looked is how many tasks were looked at for this page.
	Looked int
}

// TasksAfter returns up to n of the tasks that Tasks would go through, and the cursor with which the next call goes on: in another
// process, if need be, and much later. The first call has an empty cursor. It is for pages that stay fast and in step however many
// tasks there are, and whatever comes and goes meanwhile:
//
//	page, err := inspector.TasksAfter(ctx, "default", asynq.TaskStateRetry, asynq.TaskFilter{}, cursor, 50)
//
// The filter's MaxScan bounds how many tasks one call looks at. Where it is reached the page is short, or empty, and no error is
// returned: the next call goes on behind what was looked at. So a page may have fewer than n tasks and a Next all the same.
//
// A task that is in the state from the first page to the last is on exactly one of them, in the order and with the exceptions that
// Tasks tells. There is one more for pending and active tasks: where the eight tasks on either side of a cursor are gone, or more than
// 9,000 others have moved it, some by coming and some by going, the next page begins where it was, counted from the latest task.
//
// A cursor has no more than 1 kB, but where a task ID or a group has a long name, and tells these to who decodes it. It may come from
// anybody.
//
// The error is ErrCursor if the cursor is none, or that of another queue, state or group, and ErrQueueNotFound if there is no such queue
// (errors.Is). It fails if n is less than 1 or more than 1,000.
func (i *Inspector) TasksAfter(
	ctx context.Context, queue string, state TaskState, filter TaskFilter, cursor string, n int,
) (*TaskPage, error) {
	walk, err := i.walkFrom(ctx, queue, state, &filter, cursor, n)
	if err != nil {
		return nil, err
	}
	page := &TaskPage{}
	for filter.MaxScan <= 0 || page.Looked < filter.MaxScan {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		look := tasksPerCall
		if filter.admitsAll() {
			look = min(look, n-len(page.Tasks)+1) // one more, to see whether there are more
		}
		if filter.MaxScan > 0 {
			look = min(look, filter.MaxScan-page.Looked)
		}
		tasks, looked, err := next(ctx, walk, look)
		if err != nil {
			return nil, brokerError(err)
		}
		if looked == 0 {
			if page.Looked == 0 {
				return page, i.mustExist(ctx, queue)
			}
			return page, nil
		}
		page.Looked += looked
		if state == TaskStateActive && filter.ofAge() {
			if err := i.findStart(ctx, queue, tasks); err != nil {
				return nil, err
			}
		}
		last := page.add(tasks, &filter, n)
		if filter.Looked != nil {
			filter.Looked(page.Looked)
		}
		place, more := walk.Place(last)
		if page.Next = ""; more {
			page.Next = place.String()
		}
		if last != nil || !more {
			return page, nil
		}
	}
	return page, nil
}

// add adds what the filter admits of the tasks, until the page has n. It returns the task that has filled the page; nil if none did.
func (p *TaskPage) add(tasks []*rdb.TaskInfo, filter *TaskFilter, n int) *rdb.TaskInfo {
	for _, t := range tasks {
		if !filter.admits(t) {
			continue
		}
		info := listedTask(t)
		if filter.Match != nil && !filter.Match(info) {
			continue
		}
		if p.Tasks = append(p.Tasks, info); len(p.Tasks) == n {
			return t
		}
	}
	return nil
}

func (i *Inspector) walkFrom(
	ctx context.Context, queue string, state TaskState, filter *TaskFilter, cursor string, n int,
) (*rdb.Walk, error) {
	switch {
	case ctx == nil:
		return nil, errNilContext
	case n < 1 || n > 1000:
		return nil, fmt.Errorf("asynq: a page of %d tasks: it must be from 1 to 1,000", n)
	case filter.Group != "" && state != TaskStateAggregating:
		return nil, errGroupOfOthers
	}
	var from *rdb.Place
	if cursor != "" {
		var err error
		if from, err = rdb.ParsePlace(cursor); err != nil {
			return nil, ErrCursor
		}
	}
	walk, err := i.broker.WalkFrom(queue, wire.State(state), filter.Group, from)
	if errors.Is(err, rdb.ErrPlace) {
		return nil, ErrCursor
	}
	if err != nil {
		return nil, brokerError(err)
	}
	return walk, nil
}

// admitsAll reports whether the filter admits all tasks of its group.
func (f *TaskFilter) admitsAll() bool {
	return f.Type == "" && !f.ofAge() && f.Error == "" && f.Payload == "" && f.Match == nil
}
