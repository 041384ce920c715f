package rdb

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Limits of the wire format that every process on the same Redis keeps to.
const (
	archiveSize = 10_000              // tasks kept in an archive
	archiveAge  = 90 * 24 * time.Hour // and for how long
	statsTTL    = 90 * 24 * time.Hour // of the daily counters
)

// statsSeconds is statsTTL as scripts want it.
var statsSeconds any = int64(statsTTL / time.Second)

// maxBatch bounds the tasks of one script call, maxBatchBytes their messages: so long Redis serves nobody else.
const (
	maxBatch      = 500
	maxBatchBytes = 1 << 20
)

// Broker makes the transitions of tasks. It is safe for concurrent use.
type Broker struct {
	client redis.UniversalClient
	queues queues

	// Background, if set, runs what need not be waited for. The package itself starts no goroutines.
	Background func(f func())

	// Patience is how long Enqueue goes on where a failover keeps Redis from answering; 0: no longer than go-redis does by itself. It must be
	// far below the minute for which Redis keeps an answer.
	Patience time.Duration

	senders    *senders
	recoveries atomic.Uint64    // made so far, for their names
	now        func() time.Time // for the names of the daily counters only: every other time is Redis's

	archiveSize int // archiveSize, but for tests
	scanBudget  int // scanBudget, but for tests
}

// New returns a broker on the client, which stays the caller's to close. An empty namespace is the default one.
func New(client redis.UniversalClient, namespace wire.Namespace) *Broker {
	if namespace == "" {
		namespace = wire.DefaultNamespace
	}
	return &Broker{
		client: client, queues: queues{namespace: namespace}, senders: newSenders(), now: time.Now,
		archiveSize: archiveSize, scanBudget: scanBudget,
	}
}

// Namespace is the first part of all keys.
func (b *Broker) Namespace() wire.Namespace { return b.queues.namespace }

// Client is the connection that the broker works on.
func (b *Broker) Client() redis.UniversalClient { return b.client }

// Keys spells the keys of a queue.
func (b *Broker) Keys(queue string) wire.Queue { return b.queues.get(queue).keys }

// Ping asks Redis for a sign of life.
func (b *Broker) Ping(ctx context.Context) error { return b.client.Ping(ctx).Err() }

// Lanes divides queues into sets that share the fate of one connection: on a Cluster each queue is alone, because its slot may
// be on any shard; elsewhere all are together.
func (b *Broker) Lanes(queues []string) [][]string {
	var lanes [][]string
	index := make(map[string]int)
	for _, q := range queues {
		i, ok := index[b.Lane(q)]
		if !ok {
			i = len(lanes)
			index[b.Lane(q)] = i
			lanes = append(lanes, nil)
		}
		lanes[i] = append(lanes[i], q)
	}
	return lanes
}

// Lane names the lane of a queue.
func (b *Broker) Lane(queue string) string {
	if _, ok := b.client.(*redis.ClusterClient); ok {
		return queue
	}
	return ""
}

// once keeps go-redis from sending a command again by itself after an I/O error. A fetch sent twice would take twice.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// run sends the calls in one pipeline, in their order, and leaves each one's reply or error in it. Redis forgets scripts when it
// restarts; the calls that it does not know are sent again as text, and with them what has to come after them.
func (b *Broker) run(ctx context.Context, calls ...*call) {
	b.send(ctx, calls, (*call).cmd)
	var unknown []*call
	for _, c := range calls {
		if c.err != nil && strings.HasPrefix(c.err.Error(), "NOSCRIPT") || c.after && len(unknown) > 0 {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		b.send(ctx, unknown, (*call).full)
	}
}

func (b *Broker) send(ctx context.Context, calls []*call, command func(*call, context.Context) *redis.Cmd) {
	cmds := make([]*redis.Cmd, len(calls))
	if len(calls) == 1 && !calls[0].once {
		cmds[0] = command(calls[0], ctx)
		_ = b.client.Process(ctx, cmds[0]) // the error is the command's
	} else {
		pipe := b.client.Pipeline()
		for i, c := range calls {
			cmds[i] = command(c, ctx)
			if c.once {
				_ = pipe.Process(ctx, once{cmds[i]}) // queues it; cannot fail
			} else {
				_ = pipe.Process(ctx, cmds[i])
			}
		}
		_, _ = pipe.Exec(ctx) // the errors are the commands'
	}
	for i, c := range calls {
		c.reply, c.err = cmds[i].Result()
	}
}

// codes reads the reply of a script that answers one code for each of n tasks, or CodeOK for all of them.
func (c *call) codes(n int) ([]Code, error) {
	if c.err != nil {
		return nil, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	if c.reply == int64(CodeOK) {
		return make([]Code, n), nil
	}
	values, ok := c.reply.([]any)
	if !ok || len(values) != n {
		return nil, c.malformed()
	}
	codes := make([]Code, n)
	for i, v := range values {
		code, ok := v.(int64)
		if !ok {
			return nil, c.malformed()
		}
		codes[i] = Code(code)
	}
	return codes, nil
}

// ints reads the reply of a script that answers a list of n integers.
func (c *call) ints(n int) ([]int64, error) {
	if c.err != nil {
		return nil, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	values, ok := c.reply.([]any)
	if !ok || len(values) != n {
		return nil, c.malformed()
	}
	ints := make([]int64, n)
	for i, v := range values {
		if ints[i], ok = v.(int64); !ok {
			return nil, c.malformed()
		}
	}
	return ints, nil
}

// int reads the reply of a script that answers one integer.
func (c *call) int() (int64, error) {
	if c.err != nil {
		return 0, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	n, ok := c.reply.(int64)
	if !ok {
		return 0, c.malformed()
	}
	return n, nil
}

func (c *call) malformed() error {
	return fmt.Errorf("rdb: %s: unexpected reply %.200v", c.script.name, c.reply)
}

// seconds rounds a duration up to whole seconds, the unit of the wire format: short ones must not become none.
func seconds(d time.Duration) int64 { return ceil(d, time.Second) }

// ceil is how many units a duration is, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// milliseconds is a duration that a script answers in milliseconds. What a time.Duration cannot hold is the longest that it can; a foreign
// process may have written a time that far away.
func milliseconds(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}
