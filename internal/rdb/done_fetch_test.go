package rdb_test

import (
	"context"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// A call that settles one task and fetches one, which has a short form in done_fetch.lua, has the
// same results as any other.
func TestSettleOneAndFetchOne(t *testing.T) {
	for name, c := range map[string]struct {
		token  string
		orphan bool // the pending task does not exist
		paused bool
		more   bool // a third task is pending
		code   script.Code
		dump   string
	}{
		"both": {token: "f", dump: `
			Q:active = [t2]
			Q:lease = {t2:now+30s}
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
			Q:t:t2 = {msg:test(payload) state:active token:g}
		`},
		"lost": {token: "other", code: script.CodeLost, dump: `
			Q:active = [t2 t1]
			Q:lease = {t1:now+30s t2:now+30s}
			Q:t:t1 = {msg:test(payload) state:active token:f}
			Q:t:t2 = {msg:test(payload) state:active token:g}
		`},
		"orphan": {token: "f", orphan: true, dump: `
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
		`},
		"paused": {token: "f", paused: true, dump: `
			Q:paused = 1
			Q:pending = [t2]
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
			Q:t:t2 = {msg:test(payload) pending_since:now state:pending}
		`},
		"more": {token: "f", more: true, dump: `
			Q:active = [t2]
			Q:lease = {t2:now+30s}
			Q:pending = [t3]
			Q:processed = 1
			Q:processed:today = 1 ttl 2160h0m0s
			Q:t:t2 = {msg:test(payload) state:active token:g}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
		`},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				r.Enqueue(t, "q", 2)
				redistest.Fetch(t, b, rdb.Fetch{N: 1})
				if c.orphan {
					redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:t:t2"))
				}
				if c.more {
					r.Enqueue(t, "q", 1)
				}
				fetched, tasks := script.CodeOK, 1
				if c.paused {
					redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:paused", 1, 0))
					fetched, tasks = script.CodePaused, 0
				}
				s := &rdb.Settlement{Queue: "q", ID: "t1", Token: c.token, Outcome: rdb.Done}
				f := &rdb.Fetch{Queue: "q", N: 1, Token: "g", Lease: redistest.Lease}
				b.RoundTrip(ctx, &rdb.RoundTrip{Settle: []*rdb.Settlement{s}, Fetch: []*rdb.Fetch{f}})
				if s.Err != nil || s.Code != c.code || f.Err != nil || f.Code != fetched || f.More != c.more {
					t.Fatalf("codes %d, %d, errors %v, %v, more: %v", s.Code, f.Code, s.Err, f.Err, f.More)
				}
				if c.orphan {
					tasks = 0
				}
				if len(f.Tasks) != tasks || tasks > 0 && (f.Tasks[0].ID != "t2" || len(f.Tasks[0].Message) == 0) {
					t.Errorf("fetched %v", f.Tasks)
				}
				redistest.WantDump(t, r, "asynq:queues = {q}\nQ:marker = [1] ttl 1m0s\n"+c.dump)
			})
		})
	}
}
