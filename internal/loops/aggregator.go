package loops

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// AggregateBroker is what an aggregator needs of rdb.Broker.
type AggregateBroker interface {
	Grouped(ctx context.Context, queues []string) (bool, error)
	SweepGroups(ctx context.Context, queue string, rule rdb.GroupRule, interval time.Duration) error
	Stage(ctx context.Context, queue string, rule rdb.GroupRule) (sets []*rdb.StagedSet, next time.Duration, err error)
	ReadSets(ctx context.Context, queue string, sets []*rdb.StagedSet)
	SetAsideStaged(ctx context.Context, set *rdb.StagedSet, id string) error
	HandOver(ctx context.Context, queue string, items []*rdb.HandOver)
	PurgeSpent(ctx context.Context, queue string) (more bool, err error)
	ExtendSets(ctx context.Context, queue string, keys []string) error
	Regroup(ctx context.Context, queue string, sets []*rdb.StagedSet) error
	RegroupStale(ctx context.Context, queue string) (more bool, err error)
}

// GroupQueue is a queue whose groups are aggregated.
type GroupQueue struct {
	Name string
	Rule rdb.GroupRule

	// Combine makes the task that stands for those of a group. It runs user code, and contains its panics.
	Combine func(group string, tasks []*wire.TaskMessage) (rdb.NewTask, error)
}

// Aggregator makes one task of the tasks of a group, where the group is due.
type Aggregator struct {
	Broker AggregateBroker
	Queues []GroupQueue // of one lane
	Log    *slog.Logger

	names    []string
	complain rate.Sometimes

	mu   sync.Mutex
	held map[*rdb.StagedSet]struct{} // whose time is to be extended
}

// The pace of an aggregator.
const (
	aggregateEvery = time.Second     // a look at what is due; a group may become due by its size at any time
	sweepEvery     = 5 * time.Second // for groups that the index lacks, by one server of all
	keepSetsEvery  = 30 * time.Second
	aggregateFor   = 500 * time.Millisecond // then other queues have their turn

	unstageTimeout  = time.Second // both go on while the server stops
	handOverTimeout = 5 * time.Second
)

// NewAggregator returns an aggregator for the queues of a lane.
func NewAggregator(broker AggregateBroker, queues []GroupQueue, log *slog.Logger) *Aggregator {
	a := &Aggregator{
		Broker: broker, Queues: queues, Log: log,
		complain: rate.Sometimes{First: 1, Interval: 30 * time.Second},
		held:     make(map[*rdb.StagedSet]struct{}),
	}
	for _, q := range queues {
		a.names = append(a.names, q.Name)
	}
	return a
}

// Tick aggregates what is due.
func (a *Aggregator) Tick(ctx context.Context) (time.Duration, error) {
	some, err := a.Broker.Grouped(ctx, a.names)
	if err != nil || !some {
		return aggregateEvery, err
	}
	rest := aggregateEvery
	return a.each(func(q *GroupQueue) error {
		if err := a.Broker.SweepGroups(ctx, q.Name, q.Rule, min(sweepEvery, q.Rule.Grace)); err != nil {
			return err
		}
		next, err := a.aggregate(ctx, q)
		if next >= 0 {
			rest = min(rest, next)
		}
		return err
	}, &rest)
}

// aggregate goes on for as long as groups of the queue are due, but not for long. It returns how long it is until the next is due.
func (a *Aggregator) aggregate(ctx context.Context, q *GroupQueue) (next time.Duration, err error) {
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < aggregateFor; {
		var sets []*rdb.StagedSet
		if sets, next, err = a.Broker.Stage(ctx, q.Name, q.Rule); err != nil {
			return 0, err
		}
		if len(sets) > 0 {
			if err := a.turnInto(ctx, q, sets); err != nil {
				return next, err
			}
		}
		if next != 0 {
			break
		}
	}
	return next, nil
}

// turnInto makes tasks of staged sets. What fails stays staged: it falls back to its group when its time is over.
func (a *Aggregator) turnInto(ctx context.Context, q *GroupQueue, sets []*rdb.StagedSet) error {
	a.hold(sets)
	defer a.release(sets)
	a.Broker.ReadSets(ctx, q.Name, sets)
	var failed error
	items := make([]*rdb.HandOver, 0, len(sets))
	for i, set := range sets {
		if ctx.Err() != nil {
			return errors.Join(failed, a.unstage(ctx, q, sets[i:]), a.handOver(ctx, q, items))
		}
		if set.Err != nil {
			failed = set.Err
			continue
		}
		item, err := a.combine(ctx, q, set)
		if err != nil {
			a.Log.Error("a group cannot be aggregated; its tasks go back into it in two minutes",
				"queue", q.Name, "group", set.Group, "tasks", set.Size, "error", err)
			continue
		}
		if item == nil {
			failed = errors.Join(failed, a.unstage(ctx, q, sets[i:i+1]))
			continue
		}
		items = append(items, item)
	}
	return errors.Join(failed, a.handOver(ctx, q, items))
}

// combine makes the task that stands for those of a set. Tasks that cannot be read are set aside; it returns nil if there are no others.
func (a *Aggregator) combine(ctx context.Context, q *GroupQueue, set *rdb.StagedSet) (*rdb.HandOver, error) {
	messages := make([]*wire.TaskMessage, 0, len(set.Tasks))
	for _, t := range set.Tasks {
		msg, err := decodeStaged(t)
		if err == nil {
			messages = append(messages, msg)
			continue
		}
		a.Log.Error("a task of a group cannot be read and goes to the archive, if it exists", "queue", q.Name, "group", set.Group, "task", t.ID, "error", err)
		if err := a.Broker.SetAsideStaged(ctx, set, t.ID); err != nil {
			return nil, err
		}
	}
	if len(messages) == 0 {
		return nil, nil
	}
	task, err := q.Combine(set.Group, messages)
	if err != nil {
		return nil, err
	}
	return &rdb.HandOver{Set: set, Task: task}, nil
}

func decodeStaged(t rdb.StagedTask) (*wire.TaskMessage, error) {
	if t.Message == nil {
		return nil, rdb.ErrTaskGone
	}
	msg, err := wire.DecodeTaskMessage(t.Message)
	if err == nil && msg.ID != t.ID {
		err = errors.New("the message is that of another task")
	}
	return msg, err
}

// handOver lets the new tasks take the place of those that they were made of, also while the server stops: the user's code has done its part.
func (a *Aggregator) handOver(ctx context.Context, q *GroupQueue, items []*rdb.HandOver) error {
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverTimeout)
	defer cancel()
	a.Broker.HandOver(ctx, q.Name, items)
	var failed error
	for _, item := range items {
		switch {
		case item.Err != nil:
			failed = item.Err
		case item.Code == rdb.CodeLost:
			a.Log.Warn("the tasks of a group went back into it while they were aggregated, or an answer of Redis came late",
				"queue", q.Name, "group", item.Set.Group, "tasks", item.Set.Size)
		case item.Code != rdb.CodeOK:
			a.Log.Error("the task that a group was aggregated into is refused; the group's tasks go back into it in two minutes",
				"queue", q.Name, "group", item.Set.Group, "tasks", item.Set.Size, "task", item.Task.ID, "error", item.Code.Err())
		}
	}
	return errors.Join(failed, a.purge(ctx, q.Name))
}

// purge deletes what is left of sets that were handed over.
func (a *Aggregator) purge(ctx context.Context, queue string) error {
	for ctx.Err() == nil {
		more, err := a.Broker.PurgeSpent(ctx, queue)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// unstage gives sets back at once when the server stops.
func (a *Aggregator) unstage(ctx context.Context, q *GroupQueue, sets []*rdb.StagedSet) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unstageTimeout)
	defer cancel()
	return a.Broker.Regroup(ctx, q.Name, sets)
}

// Keep extends the time of the sets that are in work here, for as long as user code takes for them, and puts those whose holder
// died back into their groups.
func (a *Aggregator) Keep(ctx context.Context) (time.Duration, error) {
	some, err := a.Broker.Grouped(ctx, a.names)
	if err != nil || !some {
		return keepSetsEvery, err
	}
	rest := keepSetsEvery
	return a.each(func(q *GroupQueue) error {
		if keys := a.holding(q.Name); len(keys) > 0 {
			if err := a.Broker.ExtendSets(ctx, q.Name, keys); err != nil {
				return err
			}
		}
		for ctx.Err() == nil {
			more, err := a.Broker.RegroupStale(ctx, q.Name)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		return a.purge(ctx, q.Name)
	}, &rest)
}

// each calls f for every queue. One queue's error leaves the others, and their pace, alone.
func (a *Aggregator) each(f func(q *GroupQueue) error, rest *time.Duration) (time.Duration, error) {
	var failed []error
	for i := range a.Queues {
		if err := f(&a.Queues[i]); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == len(a.Queues) {
		return *rest, errors.Join(failed...)
	}
	if len(failed) > 0 {
		a.complain.Do(func() {
			a.Log.Error("groups of queues cannot be aggregated", "error", errors.Join(failed...))
		})
	}
	return *rest, nil
}

func (a *Aggregator) hold(sets []*rdb.StagedSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range sets {
		a.held[s] = struct{}{}
	}
}

func (a *Aggregator) release(sets []*rdb.StagedSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range sets {
		delete(a.held, s)
	}
}

func (a *Aggregator) holding(queue string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for s := range a.held {
		if s.Queue == queue {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
