package rdb_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// Settlements and a fetch of the same queue share one script call, which returns both results.
func TestRoundTripSettlesAndFetches(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := redistest.RecordingBroker(t, r)
		r.Enqueue(t, "q", 3)
		r.Enqueue(t, "r", 1)
		held, other := r.Fetch(t, "q", 2), r.Fetch(t, "r", 1)
		settle := func(queue, id, token string, outcome rdb.Outcome) *rdb.Settlement {
			return &rdb.Settlement{Queue: queue, ID: id, Token: token, Outcome: outcome}
		}
		trip := &rdb.RoundTrip{
			Settle: []*rdb.Settlement{
				settle("q", "t1", held.Token, rdb.Done), settle("q", "t1", "stale", rdb.Done), settle("q", "t2", held.Token, rdb.Requeue),
				settle("r", other.Tasks[0].ID, other.Token, rdb.Done),
			},
			Fetch: []*rdb.Fetch{{Queue: "q", N: 5, Token: "new", Lease: redistest.Lease}},
		}
		b.RoundTrip(context.Background(), trip)
		for i, want := range []script.Code{script.CodeOK, script.CodeLost, script.CodeOK, script.CodeOK} {
			if s := trip.Settle[i]; s.Err != nil || s.Code != want {
				t.Errorf("%v of %s under %s: code %d, want %d, error %v", s.Outcome, s.ID, s.Token, s.Code, want, s.Err)
			}
		}
		if f := trip.Fetch[0]; f.Err != nil || fmt.Sprint(redistest.IDs(f)) != "[t2 t3]" {
			t.Errorf("fetched %v, error %v; want the task returned in the same round trip first", redistest.IDs(f), f.Err)
		}
		for script, calls := range map[string]int{"done_fetch": 1, "done": 1, "settle": 1, "fetch": 0} {
			if n := len(recorded.Calls[script]); n != calls {
				t.Errorf("%d calls of %s, want %d", n, script, calls)
			}
		}
	})
}

// If the fetch of a round trip fails, its settlements stay settled and report no error.
func TestRoundTripWithFailedFetch(t *testing.T) {
	for _, key := range []string{"pending", "lease"} {
		t.Run(key, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, b := context.Background(), r.Broker()
				r.Enqueue(t, "q", 3)
				held := r.Fetch(t, "q", 1)
				done := rdb.Settlement{Queue: "q", ID: "t1", Token: held.Token, Outcome: rdb.Done}
				if key == "lease" {
					redistest.Settle(t, b, done) // nothing is left to end: only the fetch needs the leases
				}
				redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:"+key))
				redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:"+key, "of another type", 0))
				trip := &rdb.RoundTrip{
					Settle: []*rdb.Settlement{&done},
					Fetch:  []*rdb.Fetch{{Queue: "q", N: 1, Token: "new", Lease: redistest.Lease, MaxActive: 5}},
				}
				b.RoundTrip(ctx, trip)
				want := map[string]script.Code{"pending": script.CodeOK, "lease": script.CodeGone}[key]
				if done.Err != nil || done.Code != want {
					t.Errorf("done: code %d, want %d, error %v", done.Code, want, done.Err)
				}
				if err := trip.Fetch[0].Err; err == nil || !script.Refused(err) {
					t.Errorf("fetch: error %v", err)
				}
			})
		})
	}
}

// A settlement releases the lock in the task's message: other libraries do not store the lock of a
// task with a group in its hash. A lock of another queue is invalid data.
func TestSettleWithLockOfMessage(t *testing.T) {
	for _, outcome := range []rdb.Outcome{rdb.Done, rdb.Complete, rdb.Revoke, rdb.Expire, rdb.Discard} {
		t.Run(outcome.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, client := context.Background(), r.Client()
				for _, lock := range []string{"asynq:{q}:unique:a", "asynq:{r}:unique:a"} {
					r.Enqueue(t, "q", 1)
					f := r.Fetch(t, "q", 1)
					id := f.Tasks[0].ID
					redistest.Must(t, client.Set(ctx, lock, id, 0))
					s := &rdb.Settlement{Queue: "q", ID: id, Token: f.Token, Outcome: outcome, Lock: lock, Message: f.Tasks[0].Message, Retention: 60}
					r.Broker().RoundTrip(ctx, &rdb.RoundTrip{Settle: []*rdb.Settlement{s}})
					if s.Err != nil || s.Code != script.CodeOK {
						t.Errorf("code %d, error %v", s.Code, s.Err)
					}
				}
				if n := client.Exists(ctx, "asynq:{q}:unique:a").Val(); n != 0 {
					t.Error("the task's lock is still there")
				}
				if n := client.Del(ctx, "asynq:{r}:unique:a").Val(); n != 1 {
					t.Error("the lock of another queue is gone")
				}
			})
		})
	}
}
