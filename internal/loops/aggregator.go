package loops

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// AggregateBroker is the part of rdb.Broker that an Aggregator uses.
type AggregateBroker interface {
	FilledBroker
	SweepGroups(ctx context.Context, queue string, rule rdb.GroupRule, interval time.Duration) error
	Stage(ctx context.Context, queue string, rule rdb.GroupRule) (sets []*rdb.StagedSet, next time.Duration, err error)
	ReadSets(ctx context.Context, queue string, sets []*rdb.StagedSet)
	ArchiveInvalid(ctx context.Context, set *rdb.StagedSet, id string) (archived bool, err error)
	CommitAggregations(ctx context.Context, queue string, items []*rdb.Aggregation)
	PurgeConsumed(ctx context.Context, queue string) (more bool, err error)
	ExtendSets(ctx context.Context, queue string, keys []string) error
	ReturnToGroup(ctx context.Context, queue string, sets []*rdb.StagedSet) error
	ReturnExpiredSets(ctx context.Context, queue string) (more bool, err error)
}

// GroupQueue is a queue whose groups are aggregated.
type GroupQueue struct {
	Name string
	Rule rdb.GroupRule

	// Combine makes the task that replaces the tasks of a group. It runs user code, and turns its
	// panics into errors.
	Combine func(group string, tasks []*wire.TaskMessage) (rdb.NewTask, error)
}

// Aggregator replaces the tasks of each group that is due by one task. It stages the tasks of the
// group as a set, has user code combine them, and commits: the new task is enqueued and the set is
// consumed, in one step.
type Aggregator struct {
	Broker AggregateBroker
	Queues []GroupQueue // of one lane
	Log    *slog.Logger

	// Archived is called for each task that this server archived because its message cannot be
	// decoded. It may be nil, may block, and must not panic.
	Archived func(ctx context.Context, queue string, msg *wire.TaskMessage, err error)

	names    []string
	errorLog rate.Sometimes

	mu      sync.Mutex
	tracked map[*rdb.StagedSet]struct{} // sets in work, whose deadlines Maintain extends
}

// The pace of an Aggregator.
const (
	aggregateEvery   = time.Second     // between checks for due groups; a group may be due by its size at any time
	sweepEvery       = 5 * time.Second // for groups missing from the index; one server sweeps for all
	maintainEvery    = 30 * time.Second
	maxAggregateTime = 500 * time.Millisecond // then other queues are next

	returnTimeout = time.Second // both also apply while the server stops
	commitTimeout = 5 * time.Second
)

// NewAggregator returns an Aggregator for the queues of a lane.
func NewAggregator(broker AggregateBroker, queues []GroupQueue, log *slog.Logger) *Aggregator {
	a := &Aggregator{
		Broker: broker, Queues: queues, Log: log,
		errorLog: rate.Sometimes{First: 1, Interval: 30 * time.Second},
		tracked:  make(map[*rdb.StagedSet]struct{}),
	}
	for _, q := range queues {
		a.names = append(a.names, q.Name)
	}
	return a
}

// Tick aggregates the groups that are due.
func (a *Aggregator) Tick(ctx context.Context) (time.Duration, error) {
	grouped, err := a.grouped(ctx)
	if err != nil || len(grouped) == 0 {
		return aggregateEvery, err
	}
	delay := aggregateEvery
	return a.each(grouped, func(q *GroupQueue) error {
		if err := a.Broker.SweepGroups(ctx, q.Name, q.Rule, min(sweepEvery, q.Rule.Grace)); err != nil {
			return err
		}
		next, err := a.aggregate(ctx, q)
		if next >= 0 {
			delay = min(delay, next)
		}
		return err
	}, &delay)
}

// aggregate aggregates groups of the queue while some are due, for a limited time. It returns the
// time until the next group is due.
func (a *Aggregator) aggregate(ctx context.Context, q *GroupQueue) (next time.Duration, err error) {
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < maxAggregateTime; {
		var sets []*rdb.StagedSet
		if sets, next, err = a.Broker.Stage(ctx, q.Name, q.Rule); err != nil {
			return 0, err
		}
		if len(sets) > 0 {
			if err := a.aggregateSets(ctx, q, sets); err != nil {
				return next, err
			}
		}
		if next != 0 {
			break
		}
	}
	return next, nil
}

// aggregateSets combines staged sets and commits the new tasks. A set that fails stays staged: its
// tasks return to the group when its deadline has passed.
func (a *Aggregator) aggregateSets(ctx context.Context, q *GroupQueue, sets []*rdb.StagedSet) error {
	a.track(sets)
	defer a.untrack(sets)
	a.Broker.ReadSets(ctx, q.Name, sets)
	var failed error
	items := make([]*rdb.Aggregation, 0, len(sets))
	for i, set := range sets {
		if ctx.Err() != nil {
			return errors.Join(failed, a.returnToGroup(ctx, q, sets[i:]), a.commit(ctx, q, items))
		}
		if set.Err != nil {
			failed = set.Err
			continue
		}
		item, err := a.combine(ctx, q, set)
		if err != nil {
			a.Log.Error("group not aggregated, its tasks return to it in two minutes",
				"queue", q.Name, "group", set.Group, "tasks", set.Size, "error", err)
			continue
		}
		if item == nil {
			failed = errors.Join(failed, a.returnToGroup(ctx, q, sets[i:i+1]))
			continue
		}
		items = append(items, item)
	}
	return errors.Join(failed, a.commit(ctx, q, items))
}

// combine makes the task that replaces those of a set. It archives tasks that cannot be decoded,
// and returns nil if there are no others.
func (a *Aggregator) combine(ctx context.Context, q *GroupQueue, set *rdb.StagedSet) (*rdb.Aggregation, error) {
	messages := make([]*wire.TaskMessage, 0, len(set.Tasks))
	for _, t := range set.Tasks {
		msg, err := decodeStaged(t)
		if err == nil {
			messages = append(messages, msg)
			continue
		}
		a.Log.Error("archived an unreadable task of a group, if it exists",
			"queue", q.Name, "group", set.Group, "task", t.ID, "error", err)
		archived, failed := a.Broker.ArchiveInvalid(ctx, set, t.ID)
		if failed != nil {
			return nil, failed
		}
		if archived && a.Archived != nil {
			a.Archived(ctx, q.Name, &wire.TaskMessage{ID: t.ID, Queue: q.Name}, err)
		}
	}
	if len(messages) == 0 {
		return nil, nil
	}
	task, err := q.Combine(set.Group, messages)
	if err != nil {
		return nil, err
	}
	return &rdb.Aggregation{Set: set, Task: task}, nil
}

func decodeStaged(t rdb.StagedTask) (*wire.TaskMessage, error) {
	if t.Message == nil {
		return nil, script.ErrTaskGone
	}
	msg, err := wire.DecodeTaskMessage(t.Message)
	if err == nil && msg.ID != t.ID {
		err = errors.New("the message belongs to another task")
	}
	return msg, err
}

// commit replaces the tasks of sets by the new ones. It does so even while the server stops,
// because the user code has run already.
func (a *Aggregator) commit(ctx context.Context, q *GroupQueue, items []*rdb.Aggregation) error {
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	a.Broker.CommitAggregations(ctx, q.Name, items)
	var failed error
	for _, item := range items {
		switch {
		case item.Err != nil:
			failed = item.Err
		case item.Code == script.CodeLost:
			a.Log.Warn("group not committed: its tasks returned to it in the meantime, or an earlier reply was lost",
				"queue", q.Name, "group", item.Set.Group, "tasks", item.Set.Size)
		case item.Code != script.CodeOK:
			a.Log.Error("aggregated task rejected, the tasks of the group return to it in two minutes",
				"queue", q.Name, "group", item.Set.Group, "tasks", item.Set.Size, "task", item.Task.ID, "error", item.Code.Err())
		}
	}
	return errors.Join(failed, a.purge(ctx, q.Name))
}

// purge deletes the remains of consumed sets.
func (a *Aggregator) purge(ctx context.Context, queue string) error {
	for ctx.Err() == nil {
		more, err := a.Broker.PurgeConsumed(ctx, queue)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// returnToGroup returns the tasks of sets to their groups when the server stops.
func (a *Aggregator) returnToGroup(ctx context.Context, q *GroupQueue, sets []*rdb.StagedSet) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	return a.Broker.ReturnToGroup(ctx, q.Name, sets)
}

// Maintain extends the deadlines of the sets in work, while user code runs, and returns the tasks
// of sets whose server died to their groups. It is the tick of a loop of its own.
func (a *Aggregator) Maintain(ctx context.Context) (time.Duration, error) {
	grouped, err := a.grouped(ctx)
	if err != nil || len(grouped) == 0 {
		return maintainEvery, err
	}
	delay := maintainEvery
	return a.each(grouped, func(q *GroupQueue) error {
		if keys := a.trackedKeys(q.Name); len(keys) > 0 {
			if err := a.Broker.ExtendSets(ctx, q.Name, keys); err != nil {
				return err
			}
		}
		for ctx.Err() == nil {
			more, err := a.Broker.ReturnExpiredSets(ctx, q.Name)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		return a.purge(ctx, q.Name)
	}, &delay)
}

// grouped returns the queues that have groups or aggregation sets.
func (a *Aggregator) grouped(ctx context.Context) ([]string, error) {
	return a.Broker.Filled(ctx, a.names, wire.Queue.GroupsDue, wire.Queue.Groups, wire.Queue.AggregationSets, wire.Queue.ConsumedSets)
}

// each calls f for some queues. An error of one queue affects neither the others nor the delay.
func (a *Aggregator) each(names []string, f func(q *GroupQueue) error, delay *time.Duration) (time.Duration, error) {
	var failed []error
	visited := 0 // names are in the order of the queues
	for i := range a.Queues {
		if visited == len(names) || names[visited] != a.names[i] {
			continue
		}
		visited++
		if err := f(&a.Queues[i]); err != nil {
			failed = append(failed, err)
		}
	}
	if laneFailed(failed, visited, len(a.Queues)) {
		return *delay, errors.Join(failed...)
	}
	if len(failed) > 0 {
		a.errorLog.Do(func() {
			a.Log.Error("aggregation failed for some queues", "error", errors.Join(failed...))
		})
	}
	return *delay, nil
}

func (a *Aggregator) track(sets []*rdb.StagedSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range sets {
		a.tracked[s] = struct{}{}
	}
}

func (a *Aggregator) untrack(sets []*rdb.StagedSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range sets {
		delete(a.tracked, s)
	}
}

func (a *Aggregator) trackedKeys(queue string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for s := range a.tracked {
		if s.Queue == queue {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
