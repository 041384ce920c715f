package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// ScriptCalls records the script calls of a client.
type ScriptCalls struct {
	mu    sync.Mutex
	Calls map[string][]scriptCall // by the script's name
	Trips int                     // pipelines and single commands sent
}

type scriptCall struct {
	SHA        any
	Keys, Args []any
}

// DialHook implements redis.Hook.
func (c *ScriptCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *ScriptCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.record(cmd)
		c.countRoundTrip()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *ScriptCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			c.record(cmd)
		}
		c.countRoundTrip()
		return next(ctx, cmds)
	}
}

func (c *ScriptCalls) countRoundTrip() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Trips++
}

func (c *ScriptCalls) record(cmd redis.Cmder) {
	args := cmd.Args()
	if cmd.Name() != "evalsha" {
		return
	}
	name := script.NameOf(fmt.Sprint(args[1]))
	n := args[2].(int)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Calls[name] = append(c.Calls[name], scriptCall{args[1], args[3 : 3+n : 3+n], args[3+n:]})
}

// RecordingBroker returns a broker whose script calls are recorded.
func RecordingBroker(t *testing.T, r *Redis) (*rdb.Broker, *ScriptCalls) {
	t.Helper()
	client := newClient(r)
	t.Cleanup(func() { _ = client.Close() })
	recorded := &ScriptCalls{Calls: make(map[string][]scriptCall)}
	client.AddHook(recorded)
	return rdb.New(client, ""), recorded
}

// repeatCalls is a network that loses the first reply to every script call, so that go-redis sends
// it again.
type repeatCalls struct{}

func (repeatCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (repeatCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = next(ctx, cmd) // lost
		cmd.SetErr(nil)
		return next(ctx, cmd)
	}
}

func (repeatCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds) // lost
		for _, cmd := range cmds {
			cmd.SetErr(nil)
		}
		return next(ctx, cmds)
	}
}

// RepeatingBroker returns a broker whose calls all are sent twice.
func RepeatingBroker(t *testing.T, r *Redis) *rdb.Broker {
	t.Helper()
	client := newClient(r)
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(repeatCalls{})
	return rdb.New(client, "")
}

// LoadScripts makes Redis know the scripts that enqueue, fetch, settle, reclaim and recover tasks.
// A script that Redis does not know runs later than the others of its pipeline, which the model
// does not expect.
func LoadScripts(ctx context.Context, b *rdb.Broker) {
	later := time.Now().Add(time.Hour).Unix()
	b.Enqueue(ctx, &rdb.NewTask{ID: "a", Queue: "q"}, &rdb.NewTask{ID: "b", Queue: "q", ProcessAt: later}, &rdb.NewTask{ID: "c", Queue: "q", Group: "g"})
	turn := &rdb.RoundTrip{Reclaim: []*rdb.Reclaim{{Queue: "q"}}, Fetch: []*rdb.Fetch{{Queue: "q"}}}
	for outcome := rdb.Done; outcome <= rdb.Discard; outcome++ {
		turn.Settle = append(turn.Settle, &rdb.Settlement{Queue: "q", ID: "none", Outcome: outcome})
	}
	b.RoundTrip(ctx, turn)
	b.Recover(ctx, []*rdb.Settlement{{Queue: "q", ID: "none", Outcome: rdb.Requeue}})
}

// ReportCalls reports how long the scripts took, on an average and at most (where more than 1 ms,
// as the machine is otherwise busy).
func ReportCalls(ctx context.Context, b *testing.B, client *redis.Client) {
	b.Helper()
	stats, err := client.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for field := range strings.SplitSeq(stats["Commandstats"]["cmdstat_evalsha"], ",") {
		if us, ok := strings.CutPrefix(field, "usec_per_call="); ok {
			mean, _ := strconv.ParseFloat(us, 64)
			b.ReportMetric(mean/1000, "ms-mean-call")
		}
	}
	slow, err := client.SlowLogGet(ctx, 100_000).Result()
	if err != nil {
		b.Fatal(err)
	}
	longest := time.Duration(0)
	for _, entry := range slow {
		longest = max(longest, entry.Duration)
	}
	b.ReportMetric(longest.Seconds()*1000, "ms-longest-call")
}
