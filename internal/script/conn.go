package script

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// StatsTTL is the TTL of the daily counters, as in other libraries.
const StatsTTL = 90 * 24 * time.Hour

// MaxBatch limits the tasks of one script call, and MaxBatchBytes their messages, because a script
// blocks Redis. MaxPipeline limits the calls of this size per pipeline.
const (
	MaxBatch      = 500
	MaxBatchBytes = 1 << 20
	MaxPipeline   = 8
)

// Conn runs scripts in a namespace of a Redis. It is safe for concurrent use.
type Conn struct {
	client redis.UniversalClient
	queues queues

	// Archive has the limits of the archives of queues that are not in Archives.
	Archive  wire.ArchiveLimits
	Archives atomic.Pointer[map[string]wire.ArchiveLimits]
}

// NewConn returns a connection that uses the client, which remains the caller's to close. An empty
// namespace is the default one.
func NewConn(client redis.UniversalClient, namespace wire.Namespace) *Conn {
	if namespace == "" {
		namespace = wire.DefaultNamespace
	}
	c := &Conn{client: client, queues: queues{namespace: namespace}, Archive: wire.DefaultArchiveLimits}
	c.queues.names.id = rand.Text()[:16]
	return c
}

// Namespace returns the prefix of all keys.
func (b *Conn) Namespace() wire.Namespace { return b.queues.namespace }

// ArchiveLimits returns the limits of the archive of a queue.
func (b *Conn) ArchiveLimits(queue string) wire.ArchiveLimits {
	if all := b.Archives.Load(); all != nil {
		if limits, ok := (*all)[queue]; ok {
			return limits
		}
	}
	return b.Archive
}

// Client returns the client for commands other than scripts.
func (b *Conn) Client() redis.UniversalClient { return b.client }

// Cluster returns the client if it is one of a Cluster, else nil.
func (b *Conn) Cluster() *redis.ClusterClient {
	c, _ := unbounded(b.client).(*redis.ClusterClient)
	return c
}

// Master returns a client of the node that holds a key.
func (b *Conn) Master(ctx context.Context, key string) (redis.UniversalClient, error) {
	cluster := b.Cluster()
	if cluster == nil {
		return b.client, nil
	}
	var node *redis.Client
	if _, err := within(ctx, func() (err error) { node, err = cluster.MasterForKey(ctx, key); return err }); err != nil {
		return nil, err
	}
	return b.like(node), nil
}

// Masters returns a client of each node that holds keys.
func (b *Conn) Masters(ctx context.Context) ([]redis.UniversalClient, error) {
	cluster := b.Cluster()
	if cluster == nil {
		return []redis.UniversalClient{b.client}, nil
	}
	var mu sync.Mutex // ForEachMaster calls the function concurrently
	var nodes []redis.UniversalClient
	_, err := within(ctx, func() error {
		return cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, b.like(node))
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// like returns the client of a node, bounded if that of the connection is.
func (b *Conn) like(node *redis.Client) redis.UniversalClient {
	if unbounded(b.client) != b.client {
		return Bounded(node)
	}
	return node
}

// Queue returns the keys of a queue.
func (b *Conn) Queue(name string) *Queue { return b.queues.get(name) }

// Keys returns the keys of a queue.
func (b *Conn) Keys(queue string) wire.Queue { return b.Queue(queue).Keys }

// Ping sends a PING.
func (b *Conn) Ping(ctx context.Context) error { return b.client.Ping(ctx).Err() }

// ID returns a name that is unique to the connection.
func (b *Conn) ID() string { return b.queues.names.id }

// Lanes groups queues whose commands share the fate of one connection: on a Cluster each queue has
// its own lane, because its slot may be on any primary; elsewhere all queues share one.
func (b *Conn) Lanes(queues []string) [][]string {
	return groupBy(queues, b.Lane)
}

// Lane returns the name of a queue's lane.
func (b *Conn) Lane(queue string) string {
	if b.Cluster() != nil {
		return queue
	}
	return ""
}

// PrimaryLanes is Lanes, but on a Cluster the queues of one primary share a lane. A slot that moves
// to another primary later does not change the lanes. If the primaries are unknown, it returns the
// result of Lanes.
func (b *Conn) PrimaryLanes(ctx context.Context, queues []string) [][]string {
	cluster := b.Cluster()
	if cluster == nil {
		return b.Lanes(queues)
	}
	primaries := make(map[string]string, len(queues))
	for _, q := range queues {
		node, err := cluster.MasterForKey(ctx, b.Keys(q).Pending())
		if err != nil {
			return b.Lanes(queues)
		}
		primaries[q] = node.Options().Addr
	}
	return groupBy(queues, func(queue string) string { return primaries[queue] })
}

// groupBy groups names with the same key, in the order of the first name of each group.
func groupBy(names []string, key func(name string) string) [][]string {
	var groups [][]string
	index := make(map[string]int)
	for _, name := range names {
		k := key(name)
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], name)
	}
	return groups
}

// Run sends the calls in one pipeline, in order, and stores the reply or error of each in it. Redis
// loses cached scripts when it restarts: Run resends unknown scripts as text, after the others.
func (b *Conn) Run(ctx context.Context, calls ...*Call) {
	if b.Cluster() != nil {
		for _, c := range calls {
			c.useCluster()
		}
	}
	b.send(ctx, calls, (*Call).cmd)
	var unknown []*Call
	for _, c := range calls {
		if c.Err != nil && strings.HasPrefix(c.Err.Error(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		b.send(ctx, unknown, (*Call).full)
	}
}

func (b *Conn) send(ctx context.Context, calls []*Call, command func(*Call, context.Context) *redis.Cmd) {
	if len(calls) > 0 && calls[0].Late {
		ctx = context.WithValue(ctx, lateKey{}, true)
	}
	// On a Cluster, go-redis asks a random node for the table of commands before the first single
	// command, and waits if that node hangs.
	if len(calls) == 1 && !calls[0].Once && b.Cluster() == nil {
		c := calls[0]
		cmd := command(c, ctx)
		_ = b.Client().Process(ctx, cmd) // the command has the error
		c.Reply, c.Err = cmd.Result()
		return
	}
	cmds := make([]*redis.Cmd, len(calls))
	pipe := b.Client().Pipeline()
	for i, c := range calls {
		cmds[i] = command(c, ctx)
		_ = pipe.Process(ctx, c.sentOnce(cmds[i])) // queues it; cannot fail
	}
	_, _ = pipe.Exec(ctx) // the commands have the errors
	for i, c := range calls {
		if c.Reply, c.Err = cmds[i].Result(); errors.Is(c.Err, errSentBefore) {
			c.Err = firstFailure(calls, cmds)
		}
	}
}
