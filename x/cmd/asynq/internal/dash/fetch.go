package dash

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

const (
	// tasksPerPage is how many tasks are listed at once, and how many that a filter admits.
	tasksPerPage = 100
	// scanAtMost is how many tasks a filter looks at.
	scanAtMost = 2000
	// memoryEvery is how often the memory of queues is estimated, from memorySamples tasks of each state.
	memoryEvery   = time.Minute
	memorySamples = 5
	// queuesAtOnce is how many queues are asked for at the same time.
	queuesAtOnce = 8
	// eventsAtMost is how many events of a scheduler's entry are listed.
	eventsAtMost = 100
)

// base is what every page needs.
type base struct {
	// at is when it was fetched, and redisAt the same moment by Redis's clock.
	at, redisAt time.Time
	queues      []queueRow
	servers     []*asynq.ServerInfo
}

// queueRow is a queue, or why it is not known.
type queueRow struct {
	name string
	info *asynq.QueueInfo
	err  error
}

// body is what one page needs. Which fields are set depends on the view.
type body struct {
	tasks []*asynq.TaskInfo
	// scanned says that not all tasks of the state were looked at.
	scanned bool
	task    *asynq.TaskInfo
	groups  []groupRow
	entries []*asynq.SchedulerEntry
	events  []*asynq.SchedulerEnqueueEvent
	faults  *faults
}

type groupRow struct {
	queue string
	*asynq.GroupInfo
}

// fetcher is one look at Redis.
type fetcher struct {
	ctx  context.Context
	insp *asynq.Inspector // a view that ends with ctx
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

// queues looks at all queues in a few round trips. The memory of each is a call of its own, so several are then asked for at a time. A queue
// that fails does not hide the others.
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
	// A queue may go while it is asked for.
	return slices.DeleteFunc(rows, func(r queueRow) bool { return errors.Is(r.err, asynq.ErrQueueNotFound) }), nil
}

// memory looks once more at the queues that answered, with their memory.
func (f fetcher) memory(rows []queueRow) {
	insp := f.insp.WithMemorySamples(memorySamples)
	var wg sync.WaitGroup
	for first := range min(queuesAtOnce, len(rows)) {
		wg.Go(func() {
			for i := first; i < len(rows); i += queuesAtOnce {
				if r := &rows[i]; r.err == nil {
					r.info, r.err = insp.GetQueueInfo(r.name)
				}
			}
		})
	}
	wg.Wait()
}

// body fetches what a page needs; known are the errors as they were grouped last.
func (f fetcher) body(w want, b *base, known **faults) (body, error) {
	switch w.view {
	case viewTasks:
		return f.tasks(w)
	case viewTask:
		task, err := f.insp.GetTaskInfo(w.queue, w.id)
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
		events, err := f.insp.ListSchedulerEnqueueEvents(w.id, asynq.PageSize(eventsAtMost))
		return body{entries: entries, events: events}, err
	case viewErrors:
		if *known == nil || time.Since((*known).at) > faultsEvery {
			found, err := f.faults(b)
			if err != nil {
				return body{}, err
			}
			*known = found
		}
		return body{faults: *known}, nil
	default:
		return body{}, nil
	}
}

func (f fetcher) tasks(w want) (body, error) {
	if w.queue == "" {
		return body{}, nil
	}
	if w.filter != "" {
		return f.filtered(w)
	}
	tasks, err := f.page(w, asynq.Page(w.number+1), asynq.PageSize(tasksPerPage))
	return body{tasks: tasks}, err
}

func (f fetcher) page(w want, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	switch w.state {
	case asynq.TaskStateActive:
		return f.insp.ListActiveTasks(w.queue, opts...)
	case asynq.TaskStateScheduled:
		return f.insp.ListScheduledTasks(w.queue, opts...)
	case asynq.TaskStateRetry:
		return f.insp.ListRetryTasks(w.queue, opts...)
	case asynq.TaskStateArchived:
		return f.insp.ListArchivedTasks(w.queue, opts...)
	case asynq.TaskStateCompleted:
		return f.insp.ListCompletedTasks(w.queue, opts...)
	case asynq.TaskStateAggregating:
		if w.group != "" {
			return f.insp.ListAggregatingTasks(w.queue, w.group, opts...)
		}
		return f.all(w)
	default:
		return f.insp.ListPendingTasks(w.queue, opts...)
	}
}

// all lists tasks of all groups, which no page of the inspector has.
func (f fetcher) all(w want) ([]*asynq.TaskInfo, error) {
	var tasks []*asynq.TaskInfo
	for task, err := range f.insp.Tasks(f.ctx, w.queue, w.state, asynq.TaskFilter{}) {
		if err != nil {
			return tasks, err
		}
		if tasks = append(tasks, task); len(tasks) == tasksPerPage {
			break
		}
	}
	return tasks, nil
}

// filtered lists the tasks that a filter admits. It looks at a bounded number of tasks.
func (f fetcher) filtered(w want) (body, error) {
	found, err := filter.Parse(w.filter)
	if err != nil || !found.MayMatch(w.queue, w.state) {
		return body{}, err
	}
	search := found.TaskFilter()
	search.MaxScan = scanAtMost
	search.Group = w.group
	var b body
	for task, err := range f.insp.Tasks(f.ctx, w.queue, w.state, search) {
		switch {
		case errors.Is(err, asynq.ErrScanLimit):
			b.scanned = true
			return b, nil
		case err != nil:
			return b, err
		case len(b.tasks) == tasksPerPage:
			b.scanned = true
			return b, nil
		default:
			b.tasks = append(b.tasks, task)
		}
	}
	return b, nil
}

// groups lists the groups of all queues that have some. One queue that fails does not hide the others.
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

// queueOf tells the queue that a scheduler's entry enqueues to.
func queueOf(e *asynq.SchedulerEntry) string {
	queue := "default"
	for _, o := range e.Opts {
		if name, ok := o.Value().(string); ok && o.Type() == asynq.QueueOpt && strings.TrimSpace(name) != "" {
			queue = name
		}
	}
	return queue
}
