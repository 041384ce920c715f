package rdb_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// forwardInOrder moves what is due in queue q, whose order is kept.
func forwardInOrder(t *testing.T, b *rdb.Broker) rdb.Due {
	t.Helper()
	due := b.Forward(context.Background(), []string{"q"}, map[string]bool{"q": true})[0]
	if due.Err != nil {
		t.Fatal(due.Err)
	}
	return due
}

func TestFetchInOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		take := func(want rdb.Code, tasks ...string) {
			t.Helper()
			f := fetch(t, b, rdb.Fetch{N: 5, MaxActive: rdb.InOrder})
			if f.Err != nil || f.Code != want || !slices.Equal(ids(f), tasks) {
				t.Errorf("got %q, code %d, error %v; want %q, code %d", ids(f), f.Code, f.Err, tasks, want)
			}
		}
		take(rdb.CodeCapped, "t1")
		take(rdb.CodeCapped)
		settle(t, b, rdb.Settlement{ID: "t1", Token: "f", Outcome: rdb.Retry, Delay: time.Hour})
		unchanged(t, r, "a fetch while a task waits for its retry", func() { take(rdb.CodeCapped) })
		if due := forwardInOrder(t, b); due.Moved != 0 {
			t.Errorf("too early: %+v", due)
		}
		must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: 1, Member: "t1"}))
		if due := forwardInOrder(t, b); due.Moved != 1 {
			t.Errorf("when it is due: %+v", due)
		}
		take(rdb.CodeCapped, "t1")

		// In the very turn in which it ends, the next one starts.
		turn := &rdb.Turn{
			Settle: []*rdb.Settlement{{Queue: "q", ID: "t1", Token: "f", Outcome: rdb.Done}},
			Fetch:  []*rdb.Fetch{{Queue: "q", N: 5, Token: "f", Lease: redistest.Lease, MaxActive: rdb.InOrder}},
		}
		b.Turn(ctx, turn)
		if got := ids(turn.Fetch[0]); !slices.Equal(got, []string{"t2"}) {
			t.Errorf("took %q, want t2", got)
		}
		turn.Settle = []*rdb.Settlement{{Queue: "q", ID: "t2", Token: "f", Outcome: rdb.Retry}}
		turn.Fetch[0] = &rdb.Fetch{Queue: "q", N: 5, Token: "f", Lease: redistest.Lease, MaxActive: rdb.InOrder}
		b.Turn(ctx, turn)
		if f := turn.Fetch[0]; f.Code != rdb.CodeCapped || f.Tasks != nil {
			t.Errorf("overtook a task that failed in the same turn: %+v", f)
		}
	})
}

func TestForwardInOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 4)
		r.Fetch(t, "q", 3)
		for i, id := range []string{"t1", "t2", "t3"} {
			settle(t, b, rdb.Settlement{ID: id, Token: "f1", Outcome: rdb.Retry})
			must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: float64(10 - i), Member: id}))
		}
		delayed(t, r, "scheduled", -time.Hour)
		forwardInOrder(t, b)
		f := fetch(t, b, rdb.Fetch{N: 9})
		if got, want := ids(f), []string{"t3", "t2", "t1", "t4", "scheduled"}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
	})
}
