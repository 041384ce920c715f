package script

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Queue holds the keys of one queue as command arguments. They are converted to interfaces once,
// because each conversion of a string allocates.
type Queue struct {
	Keys wire.Queue

	Pending, Active, Lease, Scheduled, Retry, Archived, Completed any
	Paused, Groups, Marker, Processed, Failed                     any
	GroupsDue, AggregationSets, ConsumedSets                      any
	TaskPrefix, GroupPrefix                                       any
	TaskPrefixLen                                                 any

	daily     atomic.Pointer[DailyCounters]
	outage    outage
	sequences sequences

	// LargeMessages reports that the last fetch returned a large message: the next one leaves such
	// messages to commands of their own.
	LargeMessages atomic.Bool

	Registered  atomic.Int64 // when the name was last added to the set of queues, unix nanoseconds
	Registering atomic.Bool  // Broker.created is about to add it again
}

// DailyCounters are the keys of the counters of one UTC day.
type DailyCounters struct {
	day               int64 // days since 1970
	Processed, Failed any
}

func newQueue(k wire.Queue, names *sequenceNames) *Queue {
	return &Queue{
		Keys: k, sequences: sequences{names: names},
		Pending: k.Pending(), Active: k.Active(), Lease: k.Lease(), Scheduled: k.Scheduled(), Retry: k.Retry(),
		Archived: k.Archived(), Completed: k.Completed(), Paused: k.Paused(), Groups: k.Groups(), Marker: k.Marker(),
		Processed: k.Processed(), Failed: k.Failed(), TaskPrefix: k.TaskPrefix(), GroupPrefix: k.GroupPrefix(),
		TaskPrefixLen: len(k.TaskPrefix()),
		GroupsDue:     k.GroupsDue(), AggregationSets: k.AggregationSets(), ConsumedSets: k.ConsumedSets(),
	}
}

// Lock returns the lock of a message if it belongs to the queue, else "". Others are invalid data,
// and must not be released.
func (q *Queue) Lock(key string) string {
	if !strings.HasPrefix(key, q.Keys.Prefix()) {
		return ""
	}
	return key
}

// ContentKeys returns the keys of which an existing queue has at least one.
func (q *Queue) ContentKeys() []string {
	k := q.Keys
	return []string{
		k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Archived(), k.Completed(), k.Groups(), k.AggregationSets(), k.Processed(),
	}
}

// Today returns the keys of the counters of now's UTC day.
func (q *Queue) Today(now time.Time) *DailyCounters {
	day := now.Unix() / (24 * 60 * 60)
	if d := q.daily.Load(); d != nil && d.day == day {
		return d
	}
	d := &DailyCounters{day: day, Processed: q.Keys.ProcessedOn(now), Failed: q.Keys.FailedOn(now)}
	q.daily.Store(d)
	return d
}

// queues finds queues by name.
type queues struct {
	namespace wire.Namespace
	names     sequenceNames
	known     sync.Map // name → *Queue
	count     atomic.Int64
}

// maxQueues limits the queues whose keys are cached, because clients may request any number of
// names. The cache is cleared when it is full.
const maxQueues = 50_000

func (qs *queues) get(name string) *Queue {
	if q, ok := qs.known.Load(name); ok {
		return q.(*Queue)
	}
	if qs.count.Add(1) > maxQueues {
		qs.count.Store(1)
		qs.known.Clear()
	}
	q, _ := qs.known.LoadOrStore(name, newQueue(qs.namespace.Queue(name), &qs.names))
	return q.(*Queue)
}

// Queues returns the names of all queues.
func (b *Conn) Queues(ctx context.Context) ([]string, error) {
	names, err := b.client.SMembers(ctx, b.queues.namespace.Queues()).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: listing queues: %w", err)
	}
	return names, nil
}

// QueueExists reports whether the set of queues contains the name.
func (b *Conn) QueueExists(ctx context.Context, queue string) (bool, error) {
	ok, err := b.client.SIsMember(ctx, b.queues.namespace.Queues(), queue).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking up a queue: %w", err)
	}
	return ok, nil
}

// RegisterQueues adds names to the set of queues.
func (b *Conn) RegisterQueues(ctx context.Context, names []string) error {
	members := make([]any, len(names))
	for i, n := range names {
		members[i] = n
	}
	if err := b.client.SAdd(ctx, b.queues.namespace.Queues(), members...).Err(); err != nil {
		return fmt.Errorf("rdb: announcing queues: %w", err)
	}
	return nil
}

// maxExist limits the keys that Filled checks in one pipeline.
const maxExist = 1000

// Filled returns the queues of a lane of which one of the keys exists. Except on a Cluster, it is a
// single command if none does, because idle servers call it often.
func (b *Conn) Filled(ctx context.Context, queues []string, keys ...func(wire.Queue) string) ([]string, error) {
	all := make([]string, 0, len(queues)*len(keys))
	for _, name := range queues {
		for _, key := range keys {
			all = append(all, key(b.Keys(name)))
		}
	}
	if b.Cluster() == nil {
		some, err := b.AnyExists(ctx, all...)
		if err != nil || !some {
			return nil, err
		}
		if len(queues) == 1 {
			return queues, nil
		}
	}
	exist := make([]bool, 0, len(all))
	for some := range slices.Chunk(all, maxExist) {
		found, err := b.Exist(ctx, some)
		if err != nil {
			return nil, err
		}
		exist = append(exist, found...)
	}
	var filled []string
	for i, name := range queues {
		if slices.Contains(exist[i*len(keys):(i+1)*len(keys)], true) {
			filled = append(filled, name)
		}
	}
	return filled, nil
}

// AnyExists reports whether one of the keys exists. On a Cluster they must be in one slot.
func (b *Conn) AnyExists(ctx context.Context, keys ...string) (bool, error) {
	n, err := b.client.Exists(ctx, keys...).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: looking for tasks: %w", err)
	}
	return n > 0, nil
}

// Exist reports of each of the keys whether it exists, with a command for each. If Redis rejects
// some of them, for example because no node serves their slot, they count as not existing; if it
// rejects all, Exist returns the error.
func (b *Conn) Exist(ctx context.Context, keys []string) ([]bool, error) {
	cmds := make([]*redis.IntCmd, len(keys))
	_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			cmds[i] = pipe.Exists(ctx, key)
		}
		return nil
	})
	exist, served := make([]bool, len(keys)), false
	for i, cmd := range cmds {
		if exist[i] = cmd.Val() > 0; cmd.Err() == nil {
			served = true
		} else if !Refused(cmd.Err()) {
			return nil, fmt.Errorf("rdb: looking for tasks: %w", cmd.Err())
		}
	}
	if err != nil && !served {
		return nil, fmt.Errorf("rdb: looking for tasks: %w", err)
	}
	return exist, nil
}
