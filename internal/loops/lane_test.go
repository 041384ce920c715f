package loops

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// roundTrips is a hook that counts round trips.
type roundTrips struct{ n atomic.Int64 }

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { r.n.Add(1); return next(ctx, cmd) }
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { r.n.Add(1); return next(ctx, cmds) }
}

// A loop visits only the queues that have work for it, and finds them together.
func TestLoopsFindQueuesTogether(t *testing.T) {
	r := redistest.Mini(t)
	client := redis.NewClient(&redis.Options{Addr: r.Addr, Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	count := new(roundTrips)
	b := rdb.New(client, "")
	queues := make([]string, 500)
	for i := range queues {
		queues[i] = fmt.Sprint("q", i)
	}
	r.Enqueue(t, "q7", 1)
	r.Fetch(t, "q7", 1)
	late := redistest.NewTask(t, "q8", "late")
	late.ProcessAt = time.Now().Add(time.Hour).Unix()
	r.Make(t, late)
	if _, err := b.Filled(context.Background(), queues, wire.Queue.Scheduled); err != nil { // connects
		t.Fatal(err)
	}
	client.AddHook(count)
	for name, tick := range map[string]func(context.Context) (time.Duration, error){
		"forwarder": NewForwarder(b, queues, time.Minute, slog.New(slog.DiscardHandler)).Tick,
		"recoverer": (&Recoverer{Broker: b, Queues: queues, Interval: time.Minute}).Tick,
		"janitor":   (&Janitor{Broker: b, Queues: queues, Interval: time.Minute, BatchSize: 10}).Tick,
		"aggregator": NewAggregator(b, []GroupQueue{{Name: "q1"}, {Name: "q2"}, {Name: "q3"}, {Name: "q4"}},
			slog.New(slog.DiscardHandler)).Tick,
	} {
		count.n.Store(0)
		if _, err := tick(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := count.n.Load(); n > 5 { // the scripts may be unknown
			t.Errorf("%s: %d round trips", name, n)
		}
	}
	if got, err := b.Filled(context.Background(), queues, wire.Queue.Lease); err != nil || len(got) != 1 || got[0] != "q7" {
		t.Errorf("queues with leases: %q, error %v", got, err)
	}
}
