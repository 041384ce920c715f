package dash

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
)

const (
	// tasksPerPage is the number of tasks on a page.
	tasksPerPage = 100
	// memoryInterval is how often the memory of queues is estimated, from memorySamples tasks per
	// state.
	memoryInterval = time.Minute
	memorySamples  = 5
	// maxConcurrent is the maximum number of queues that are read concurrently.
	maxConcurrent = 8
	// maxEvents is the maximum number of listed events of a scheduler entry.
	maxEvents = 100
)

// base is the data that every page needs.
type base struct {
	// at is when the data was fetched, and redisAt the same time by the Redis clock.
	at, redisAt time.Time
	queues      []queueRow
	servers     []*asynq.ServerInfo
}

// queueRow is a queue, or the error that prevented reading it.
type queueRow struct {
	name string
	info *asynq.QueueInfo
	err  error
}

// body is the data of one page. The view determines which fields are set.
type body struct {
	tasks   []*asynq.TaskInfo
	found   *searchResult // of a search
	task    *asynq.TaskInfo
	groups  []groupRow
	entries []*asynq.SchedulerEntry
	events  []*asynq.SchedulerEnqueueEvent
	errors  *errorGroups
	history *recorded

	partitions []*asynq.PartitionInfo

	flows     []*flow.Info // of a page, or one
	flowCount int          // all flows
}

// kept is data that is not fetched in each poll.
type kept struct {
	errors  *errorGroups
	history *recorded
}

type groupRow struct {
	queue string
	*asynq.GroupInfo
}

// fetcher reads the data of one poll.
type fetcher struct {
	ctx  context.Context
	insp *asynq.Inspector // its calls end with ctx

	flows *flow.Inspector
}

func (f fetcher) base(memory bool) (base, error) {
	queues, err := f.queues(memory)
	if err != nil {
		return base{}, err
	}
	servers, err := f.insp.Servers()
	if err != nil {
		return base{}, err
	}
	b := base{queues: queues, servers: servers, at: time.Now()}
	b.redisAt = b.at
	for _, q := range b.queues {
		if q.info != nil {
			b.redisAt = q.info.Timestamp
		}
	}
	return b, f.ctx.Err()
}

// queues reads all queues in a few round trips. Memory usage takes a separate call per queue, so
// several calls run concurrently. Queues that cannot be read have an error.
func (f fetcher) queues(memory bool) ([]queueRow, error) {
	found, err := f.insp.WithMemorySamples(0).QueueInfos(f.ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]queueRow, 0, len(found))
	for _, q := range found {
		rows = append(rows, queueRow{name: q.Queue, info: q.Info, err: q.Err})
	}
	if memory {
		f.memory(rows)
	}
	// A queue may be removed during the poll.
	return slices.DeleteFunc(rows, func(r queueRow) bool { return errors.Is(r.err, asynq.ErrQueueNotFound) }), nil
}

// memory rereads the readable queues with their memory usage.
func (f fetcher) memory(rows []queueRow) {
	insp := f.insp.WithMemorySamples(memorySamples)
	var wg sync.WaitGroup
	for first := range min(maxConcurrent, len(rows)) {
		wg.Go(func() {
			for i := first; i < len(rows); i += maxConcurrent {
				if r := &rows[i]; r.err == nil {
					r.info, r.err = insp.GetQueueInfo(r.name)
				}
			}
		})
	}
	wg.Wait()
}

// body fetches the data of a page, unless known has it.
func (f fetcher) body(q query, b *base, known *kept) (body, error) {
	switch q.view {
	case viewTasks:
		return f.tasks(q)
	case viewTask:
		task, err := f.insp.GetTaskInfo(q.queue, q.id)
		return body{task: task}, err
	case viewGroups:
		return f.groups(b)
	case viewSchedulers:
		entries, err := f.insp.SchedulerEntries()
		return body{entries: entries}, err
	case viewEntry:
		entries, err := f.insp.SchedulerEntries()
		if err != nil {
			return body{}, err
		}
		events, err := f.insp.ListSchedulerEnqueueEvents(q.id, asynq.PageSize(maxEvents))
		return body{entries: entries, events: events}, err
	case viewErrors:
		if known.errors == nil || time.Since(known.errors.at) > errorInterval {
			found, err := f.errors(b)
			if err != nil {
				return body{}, err
			}
			known.errors = found
		}
		return body{errors: known.errors}, nil
	case viewPartitions:
		return f.partitions(q)
	case viewFlows:
		return f.listFlows(q)
	case viewFlow:
		info, err := f.flows.Get(f.ctx, q.id)
		return body{flows: []*flow.Info{info}}, err
	case viewHistory:
		if known.history == nil || known.history.query != q || time.Since(known.history.at) > historyInterval {
			found, err := f.history(q)
			if err != nil {
				return body{history: found}, err
			}
			known.history = found
		}
		return body{history: known.history}, nil
	default:
		return body{}, nil
	}
}

func (f fetcher) tasks(q query) (body, error) {
	if q.queue == "" {
		return body{}, nil
	}
	if q.reverse || q.state == asynq.TaskStateAggregating && q.group == "" { // not supported by the list methods of the inspector
		tasks, err := f.walk(q)
		return body{tasks: tasks}, err
	}
	tasks, err := f.page(q, asynq.Page(q.number+1), asynq.PageSize(tasksPerPage), asynq.NewestFirst())
	return body{tasks: tasks}, err
}

func (f fetcher) page(q query, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	switch q.state {
	case asynq.TaskStateActive:
		return f.insp.ListActiveTasks(q.queue, opts...)
	case asynq.TaskStateScheduled:
		return f.insp.ListScheduledTasks(q.queue, opts...)
	case asynq.TaskStateRetry:
		return f.insp.ListRetryTasks(q.queue, opts...)
	case asynq.TaskStateArchived:
		return f.insp.ListArchivedTasks(q.queue, opts...)
	case asynq.TaskStateCompleted:
		return f.insp.ListCompletedTasks(q.queue, opts...)
	case asynq.TaskStateAggregating:
		return f.insp.ListAggregatingTasks(q.queue, q.group, opts...)
	default:
		return f.insp.ListPendingTasks(q.queue, opts...)
	}
}

// walk lists a page of tasks with the iterator of the inspector.
func (f fetcher) walk(q query) ([]*asynq.TaskInfo, error) {
	var tasks []*asynq.TaskInfo
	skip := q.number * tasksPerPage
	for task, err := range f.insp.Tasks(f.ctx, q.queue, q.state, asynq.TaskFilter{Group: q.group, Reverse: q.reverse}) {
		if err != nil {
			return tasks, err
		}
		if skip > 0 {
			skip--
			continue
		}
		if tasks = append(tasks, task); len(tasks) == tasksPerPage {
			break
		}
	}
	return tasks, nil
}

// groups lists the groups of all queues. It skips queues that cannot be read.
func (f fetcher) groups(b *base) (body, error) {
	var rows []groupRow
	var failed []error
	for _, q := range b.queues {
		if q.info == nil || q.info.Groups == 0 {
			continue
		}
		groups, err := f.insp.Groups(q.name)
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			failed = append(failed, err)
		}
		for _, g := range groups {
			rows = append(rows, groupRow{queue: q.name, GroupInfo: g})
		}
	}
	if rows == nil && failed != nil {
		return body{}, errors.Join(failed...)
	}
	return body{groups: rows}, nil
}

// queueOf returns the queue that a scheduler entry enqueues to.
func queueOf(e *asynq.SchedulerEntry) string {
	queue := "default"
	for _, o := range e.Opts {
		if name, ok := o.Value().(string); ok && o.Type() == asynq.QueueOpt && strings.TrimSpace(name) != "" {
			queue = name
		}
	}
	return queue
}
