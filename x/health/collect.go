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
		var infos []asynq.QueueInfoResult
		if infos, in.Problems.Queues = view.QueueInfos(ctx); in.Problems.Queues != nil {
			return
		}
		for _, q := range infos {
			in.Queues = append(in.Queues, Queue{Name: q.Queue, Info: q.Info, Err: q.Err})
		}
		in.Samples, in.Problems.Samples = SampleErrors(ctx, view, in.Queues, in.At)
	})
	var unhandled []asynq.UnhandledType
	wg.Go(func() { unhandled, _ = view.UnhandledTypes(ctx) }) // reported with Servers
	wg.Go(func() { in.Stats, in.Problems.Stats = ReadStats(ctx, view, s, in.At) })
	wg.Go(func() { in.Servers, in.Problems.Servers = view.Servers() })
	wg.Go(func() { in.Entries, in.Problems.Entries = view.SchedulerEntries() })
	wg.Go(func() { in.Processes, in.Problems.Processes = view.Processes(ctx, lostWithin) })
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
// queue cannot be read, the samples of the others are returned as well.
func SampleErrors(ctx context.Context, i *asynq.Inspector, queues []Queue, now time.Time) ([]ErrorSample, error) {
	failed := func(q Queue) int {
		if q.Info == nil {
			return 0
		}
		return q.Info.Retry + q.Info.Archived
	}
	most := slices.DeleteFunc(slices.Clone(queues), func(q Queue) bool { return failed(q) == 0 })
	slices.SortStableFunc(most, func(a, b Queue) int { return cmp.Compare(failed(b), failed(a)) })
	view := i.WithContext(ctx)
	type key struct{ queue, typename, kind string }
	found := make(map[key]*ErrorSample)
	var errs []error
	for _, q := range most[:min(len(most), sampledQueues)] {
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){view.ListRetryTasks, view.ListArchivedTasks} {
			tasks, err := list(q.Name, asynq.PageSize(sampledTasks), asynq.NewestFirst())
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				errs = append(errs, err)
			}
			for _, t := range tasks {
				if t.LastErr == "" || now.Sub(t.LastFailedAt) > recentFailure {
					continue
				}
				k := key{q.Name, t.Type, errorKind(t.LastErr)}
				s := found[k]
				if s == nil {
					s = &ErrorSample{Queue: k.queue, Type: k.typename, Kind: k.kind, First: t.LastFailedAt, Last: t.LastFailedAt, Retried: -1}
					found[k] = s
				}
				s.add(t)
			}
		}
	}
	all := make([]ErrorSample, 0, len(found))
	for _, s := range found {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b ErrorSample) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind))
	})
	return all, errors.Join(errs...)
}

func (s *ErrorSample) add(t *asynq.TaskInfo) {
	s.Tasks++
	if t.Retried > s.Retried {
		s.Retried, s.Task = t.Retried, t.ID
	}
	if t.LastFailedAt.Before(s.First) {
		s.First = t.LastFailedAt
	}
	if t.LastFailedAt.After(s.Last) {
		s.Last = t.LastFailedAt
	}
}
