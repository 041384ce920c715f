package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestWaiting(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		look := func(want []string, queues ...string) {
			t.Helper()
			got, err := b.Waiting(ctx, queues)
			if err != nil {
				t.Error(err)
			}
			if len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
				t.Errorf("of %v tasks wait in %v, want %v", queues, got, want)
			}
		}
		look(nil, "a")
		look(nil, "a", "b", "c")
		r.Enqueue(t, "a", 1)
		r.Enqueue(t, "c", 1)
		delayed(t, r, "d", time.Hour)
		look([]string{"a"}, "a")
		look(nil, "b")
		look([]string{"c", "a"}, "q", "c", "b", "a")
	})
}

func TestPassMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		unchanged(t, r, "a marker of an empty queue", func() {
			if err := b.PassMarker(ctx, "q"); err != nil {
				t.Error(err)
			}
		})
		r.Enqueue(t, "q", 1)
		must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
		for range 2 {
			if err := b.PassMarker(ctx, "q"); err != nil {
				t.Error(err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t1]
			Q:t:t1 = {msg:test(payload) pending_since:now state:pending}
		`)
	})
}

// Every way into pending leaves the marker.
func TestMarkerIsLeft(t *testing.T) {
	ctx := context.Background()
	tests := map[string]func(*testing.T, *redistest.Redis, *rdb.Broker){
		"requeue": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) {
			settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Requeue})
		},
		"undo": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) { undo(t, b, "f1") },
		"recover": func(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
			expire(t, r, time.Hour, "t1")
			b.Recover(ctx, "q", []*rdb.Recovery{{ID: "t1", Token: "f1"}})
		},
		"forward": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker) { forward(t, b) },
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.Enqueue(t, "q", 1)
				r.Fetch(t, "q", 1)
				delayed(t, r, "due", -time.Hour)
				must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
				act(t, r, r.Broker())
				if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != 1 {
					t.Errorf("%d markers", n)
				}
				if ttl := r.Client().TTL(ctx, "asynq:{q}:marker").Val(); ttl <= 0 || ttl > time.Minute {
					t.Errorf("its TTL is %v", ttl)
				}
			})
		})
	}
}
