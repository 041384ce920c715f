package rdb

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// queue holds the keys of one queue as the arguments of commands: made once, because each string put into an interface is an
// allocation.
type queue struct {
	keys wire.Queue

	pending, active, lease, scheduled, retry, archived, completed any
	paused, groups, marker, processed, failed                     any
	groupsDue, aggregationSets, spentSets                         any
	taskPrefix, groupPrefix                                       any
	taskPrefixLen                                                 any

	daily     atomic.Pointer[dailyCounters]
	published atomic.Int64 // when the queue's name was last put into the set of queues, unix nanoseconds
	outage    outage
}

// dailyCounters are the keys of the counters of one UTC day.
type dailyCounters struct {
	day               int64 // days since 1970
	processed, failed any
}

func newQueue(k wire.Queue) *queue {
	return &queue{
		keys:    k,
		pending: k.Pending(), active: k.Active(), lease: k.Lease(), scheduled: k.Scheduled(), retry: k.Retry(),
		archived: k.Archived(), completed: k.Completed(), paused: k.Paused(), groups: k.Groups(), marker: k.Marker(),
		processed: k.Processed(), failed: k.Failed(), taskPrefix: k.TaskPrefix(), groupPrefix: k.GroupPrefix(),
		taskPrefixLen: len(k.TaskPrefix()),
		groupsDue:     k.GroupsDue(), aggregationSets: k.AggregationSets(), spentSets: k.SpentSets(),
	}
}

// lock is the key of a lock, as a message has it, if that is one of the queue's; others are bad data, and not ours to give up.
func (q *queue) lock(key string) string {
	if !strings.HasPrefix(key, q.keys.Prefix()) {
		return ""
	}
	return key
}

// collectionOf is the key of the tasks in a state: of those in a group, where the state is aggregating. It is empty for what is no state.
func collectionOf(k wire.Queue, state wire.State, group string) string {
	switch state {
	case wire.StatePending:
		return k.Pending()
	case wire.StateActive:
		return k.Active()
	case wire.StateScheduled:
		return k.Scheduled()
	case wire.StateRetry:
		return k.Retry()
	case wire.StateArchived:
		return k.Archived()
	case wire.StateCompleted:
		return k.Completed()
	case wire.StateAggregating:
		return k.Group(group)
	default:
		return ""
	}
}

// today returns the keys of the counters of now's UTC day.
func (q *queue) today(now time.Time) *dailyCounters {
	day := now.Unix() / (24 * 60 * 60)
	if d := q.daily.Load(); d != nil && d.day == day {
		return d
	}
	d := &dailyCounters{day: day, processed: q.keys.ProcessedOn(now), failed: q.keys.FailedOn(now)}
	q.daily.Store(d)
	return d
}

// queues finds the queue of a name.
type queues struct {
	namespace wire.Namespace
	known     sync.Map // name → *queue
}

func (qs *queues) get(name string) *queue {
	if q, ok := qs.known.Load(name); ok {
		return q.(*queue)
	}
	q, _ := qs.known.LoadOrStore(name, newQueue(qs.namespace.Queue(name)))
	return q.(*queue)
}
