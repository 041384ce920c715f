package rdb_test

import (
	"context"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestAMarkerTellsOfRoom(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 6)
		marked := func(when string, want bool) {
			t.Helper()
			n, err := r.Client().Del(ctx, "asynq:{q}:marker").Result()
			if err != nil || n > 0 != want {
				t.Errorf("%s: the marker is there: %v, error %v; want %v", when, n > 0, err, want)
			}
		}
		marked("after enqueue", true)
		fetch(t, b, rdb.Fetch{N: 1, MaxActive: 2, Mark: true})
		marked("one more may be active", true)
		fetch(t, b, rdb.Fetch{N: 1, MaxActive: 2, Mark: true})
		marked("no more may be", false)

		done := func(id, queue string) {
			t.Helper()
			turn := &rdb.Turn{Settle: []*rdb.Settlement{{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done}}, Pass: []string{queue}}
			b.Turn(ctx, turn)
			if s := turn.Settle[0]; s.Err != nil || s.Code != rdb.CodeOK {
				t.Errorf("%s ended with code %d, error %v", id, s.Code, s.Err)
			}
		}
		done("t1", "q")
		marked("after a turn that tells of room", true)
		must(t, r.Client().Set(ctx, "asynq:{broken}:pending", "x", 0))
		must(t, r.Client().Set(ctx, "asynq:{broken}:marker", "x", 0))
		done("t2", "broken") // hurts nobody
		must(t, r.Client().Del(ctx, "asynq:{broken}:pending", "asynq:{broken}:marker"))
		fetch(t, b, rdb.Fetch{N: 1})
		done("t3", "empty")
		if n := r.Client().Exists(ctx, "asynq:{empty}:marker").Val(); n != 0 {
			t.Error("a queue without tasks is marked")
		}
	})
}
