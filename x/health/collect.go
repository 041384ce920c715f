package health

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// lostWithin is how long crashed processes are of interest.
	lostWithin = 24 * time.Hour

	// sampledQueues is the number of queues whose failed tasks are sampled: those with the most.
	// sampledTasks is the number of tasks of each state, the latest first.
	sampledQueues = 20
	sampledTasks  = 100

	// recentFailure is how long ago a sampled task failed at most.
	recentFailure = 15 * time.Minute
)

// Collect reads the state of queues, servers, schedulers and Redis with some 20 round trips, and
// two for each of up to 20 queues with failed tasks. It ends with ctx. The error of a part is in
// Problems.
func Collect(ctx context.Context, i *asynq.Inspector, s Settings) *Input {
	in := &Input{At: time.Now()}
	if ctx == nil || i == nil {
		in.Err = errors.New("health: ctx and the Inspector must not be nil")
		return in
	}
	view := i.WithContext(ctx).WithMemorySamples(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		in.Processes, in.Problems.Processes = view.Processes(ctx, lostWithin)
		var infos []asynq.QueueInfoResult
		if infos, in.Problems.Queues = view.QueueInfos(ctx); in.Problems.Queues != nil {
			return
		}
		for _, q := range infos {
			in.Queues = append(in.Queues, Queue{Name: q.Queue, Info: q.Info, Err: q.Err})
		}
		in.Samples, in.Problems.Samples = SampleErrors(ctx, view, in.Queues, in.Processes, in.At)
	})
	var unhandled []asynq.UnhandledType
	wg.Go(func() { unhandled, _ = view.UnhandledTypes(ctx) }) // reported with Servers
	wg.Go(func() { in.Stats, in.Problems.Stats = ReadStats(ctx, view, s, in.At) })
	wg.Go(func() { in.Servers, in.Problems.Servers = view.Servers() })
	wg.Go(func() { in.Entries, in.Problems.Entries = view.SchedulerEntries() })
	wg.Go(func() { in.Mutes, in.Problems.Mutes = view.Mutes(ctx) })
	wg.Go(func() { in.Nodes, in.Problems.Redis = nodes(ctx, view) })
	wg.Wait()
	for _, t := range unhandled {
		for n := range in.Queues {
			if in.Queues[n].Name == t.Queue {
				in.Queues[n].Unhandled = append(in.Queues[n].Unhandled, t)
			}
		}
	}
	if p := in.Problems; p.Queues != nil && p.Servers != nil && p.Entries != nil {
		in.Err = p.Queues
	}
	return in
}

// nodes reads the state of all Redis servers. It returns the error of one if all of them failed.
func nodes(ctx context.Context, i *asynq.Inspector) ([]Node, error) {
	found, err := i.RedisNodes(ctx)
	var failed error
	var all []Node
	for _, n := range found {
		node := ParseNode(n.Addr, n.Info)
		if n.Info == "" && n.Err != nil {
			node.Err, failed = n.Err, n.Err
		}
		all = append(all, node)
	}
	if err == nil && !slices.ContainsFunc(all, func(n Node) bool { return n.Err == nil }) {
		err = failed
	}
	return all, err
}

// SampleErrors reads the last errors of tasks in retry and of archived ones that failed recently:
// up to 100 tasks of each state, of up to 20 queues, those with the most such tasks first. If a
// server among the processes has crashed recently, it also reads active tasks: one that crashed a
// server runs again at once. If a queue cannot be read, the samples of the others are returned as
// well.
func SampleErrors(ctx context.Context, i *asynq.Inspector, queues []Queue, processes []asynq.ProcessInfo, now time.Time) ([]ErrorSample, error) {
	view := i.WithContext(ctx)
	found := make(samples)
	var errs []error
	read := func(q Queue, list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)) {
		tasks, err := list(q.Name, asynq.PageSize(sampledTasks), asynq.NewestFirst())
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			errs = append(errs, err)
		}
		for _, t := range tasks {
			if t.LastErr != "" && now.Sub(t.LastFailedAt) <= recentFailure {
				found.add(t)
			}
		}
	}
	for _, q := range most(queues, func(i *asynq.QueueInfo) int { return i.Retry + i.Archived }) {
		read(q, view.ListRetryTasks)
		read(q, view.ListArchivedTasks)
	}
	if slices.ContainsFunc(processes, func(p asynq.ProcessInfo) bool {
		return !p.Scheduler && !p.Expired.IsZero() && now.Sub(p.Expired) <= recentFailure
	}) {
		for _, q := range most(queues, func(i *asynq.QueueInfo) int { return i.Active }) {
			read(q, view.ListActiveTasks)
		}
	}
	return found.sorted(), errors.Join(errs...)
}

// most returns the queues with the most tasks, as count counts them, and none without tasks.
func most(queues []Queue, count func(*asynq.QueueInfo) int) []Queue {
	all := slices.DeleteFunc(slices.Clone(queues), func(q Queue) bool { return q.Info == nil || count(q.Info) == 0 })
	slices.SortStableFunc(all, func(a, b Queue) int { return cmp.Compare(count(b.Info), count(a.Info)) })
	return all[:min(len(all), sampledQueues)]
}

// samples are samples by queue, type and kind of error.
type samples map[[3]string]*ErrorSample

// add adds a task. An active task counts only if its server crashed: it may have recovered from
// other errors.
func (all samples) add(t *asynq.TaskInfo) {
	kind := errorKind(t.LastErr)
	if t.State == asynq.TaskStateActive && !crashes(kind) {
		return
	}
	k := [3]string{t.Queue, t.Type, kind}
	s := all[k]
	if s == nil {
		s = &ErrorSample{Queue: t.Queue, Type: t.Type, Kind: kind, First: t.LastFailedAt, Last: t.LastFailedAt}
		all[k] = s
	}
	s.Tasks++
	failed := t.Retried
	if t.State == asynq.TaskStateArchived {
		failed++ // the last attempt was not retried
	}
	if failed > s.Failed || s.Task == "" {
		s.Failed, s.Task = failed, t.ID
	}
	if t.LastFailedAt.Before(s.First) {
		s.First = t.LastFailedAt
	}
	if t.LastFailedAt.After(s.Last) {
		s.Last = t.LastFailedAt
	}
}

// sorted returns the samples, those of the most tasks first.
func (all samples) sorted() []ErrorSample {
	list := make([]ErrorSample, 0, len(all))
	for _, s := range all {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b ErrorSample) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}
