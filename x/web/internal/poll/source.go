package poll

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

// Source provides the data of a poll. Each method is called by one goroutine at a time.
type Source interface {
	// Queues returns the state of all queues, without their memory.
	Queues(ctx context.Context) ([]asynq.QueueInfoResult, error)

	// Memory estimates the size of queues in bytes. The call is expensive. Queues that could not be
	// read are omitted.
	Memory(ctx context.Context, queues []string) (map[string]int64, error)

	Servers(ctx context.Context) ([]*asynq.ServerInfo, error)
	Entries(ctx context.Context) ([]*asynq.SchedulerEntry, error)

	// Unhandled returns the types of waiting tasks of queues that no running server handles. It
	// reads some hundred tasks of each queue.
	Unhandled(ctx context.Context, queues []string) ([]asynq.UnhandledType, error)

	// Nodes returns INFO and the number of keys of each master.
	Nodes(ctx context.Context) ([]NodeInfo, error)

	// Mutes returns the muted causes.
	Mutes(ctx context.Context) ([]*asynq.Mute, error)

	// Symptoms reads the processes, failed tasks of these queues, and statistics by task type.
	Symptoms(ctx context.Context, queues []health.Queue, settings health.Settings, now time.Time) (*Symptoms, error)

	// Details returns the data of the Redis page, with the nodes of these queues if Redis is a
	// Cluster.
	Details(ctx context.Context, queues []string) (*Details, error)
}

// NodeInfo is the state of one Redis server.
type NodeInfo struct {
	Addr string
	Err  error
	Info string // the text of INFO
	Keys int64
}

// NewSource returns a source that uses the inspector and the client. The caller must close them.
func NewSource(inspector *asynq.Inspector, client redis.UniversalClient) Source {
	return &source{inspector: inspector, client: client}
}

type source struct {
	inspector *asynq.Inspector
	client    redis.UniversalClient
}

// memorySamples is the number of tasks of each state that the memory of a queue is estimated from.
const memorySamples = 20

func (s *source) Queues(ctx context.Context) ([]asynq.QueueInfoResult, error) {
	return s.inspector.WithMemorySamples(0).QueueInfos(ctx)
}

func (s *source) Memory(ctx context.Context, queues []string) (map[string]int64, error) {
	results, err := s.inspector.WithMemorySamples(memorySamples).QueueInfos(ctx, queues...)
	if err != nil {
		return nil, err
	}
	bytes := make(map[string]int64, len(results))
	for _, r := range results {
		if r.Err == nil {
			bytes[r.Queue] = r.Info.MemoryUsage
		}
	}
	return bytes, nil
}

func (s *source) Servers(ctx context.Context) ([]*asynq.ServerInfo, error) {
	return s.inspector.WithContext(ctx).Servers()
}

func (s *source) Entries(ctx context.Context) ([]*asynq.SchedulerEntry, error) {
	return s.inspector.WithContext(ctx).SchedulerEntries()
}

func (s *source) Unhandled(ctx context.Context, queues []string) ([]asynq.UnhandledType, error) {
	return s.inspector.UnhandledTypes(ctx, queues...)
}

func (s *source) Nodes(ctx context.Context) ([]NodeInfo, error) {
	return eachNode(ctx, s.client, false, func(ctx context.Context, addr string, c node) NodeInfo {
		n := NodeInfo{Addr: addr}
		if n.Info, n.Err = c.Info(ctx).Result(); n.Err == nil {
			n.Keys, n.Err = c.DBSize(ctx).Result()
		}
		return n
	})
}

// node is one Redis server.
type node interface {
	redis.Cmdable
}

// eachNode calls all masters concurrently, and also the replicas if replicas is true. The results
// are in the order of the addresses.
func eachNode[T any](ctx context.Context, client redis.UniversalClient, replicas bool, ask func(context.Context, string, node) T) ([]T, error) {
	var mu sync.Mutex
	answers := make(map[string]T)
	one := func(ctx context.Context, c *redis.Client) error {
		addr := c.Options().Addr
		answer := ask(ctx, addr, c)
		mu.Lock()
		defer mu.Unlock()
		answers[addr] = answer
		return nil
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		if replicas {
			err = c.ForEachShard(ctx, one)
		} else {
			err = c.ForEachMaster(ctx, one)
		}
	case *redis.Ring:
		err = c.ForEachShard(ctx, one)
	case *redis.Client:
		err = one(ctx, c)
	default:
		answers[""] = ask(ctx, "", client)
	}
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 {
		return nil, errors.New("poll: no Redis server found")
	}
	mu.Lock()
	defer mu.Unlock()
	ordered := make([]T, 0, len(answers))
	for _, addr := range slices.Sorted(maps.Keys(answers)) {
		ordered = append(ordered, answers[addr])
	}
	return ordered, nil
}
