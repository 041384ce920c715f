package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// TestWrongType puts something else in place of every key that a script writes. The script must tell so before it writes anything:
// nothing rolls back.
func TestWrongType(t *testing.T) {
	ctx := context.Background()
	settleBy := func(outcome rdb.Outcome) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			batch := []*rdb.Settlement{
				{Queue: "q", ID: "t1", Token: "f1", Outcome: outcome, Message: message(t, "t1"), Failed: true, Retention: 60},
				{Queue: "q", ID: "t2", Token: "f1", Outcome: outcome, Message: message(t, "t2"), Failed: true, Retention: 60},
			}
			b.Turn(ctx, &rdb.Turn{Settle: batch})
			return batch[0].Err
		}
	}
	enqueue := func(processAt int64, group string) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			fine, broken := lock(redistest.NewTask(t, "q", "fine"), "fine"), lock(redistest.NewTask(t, "q", "new"), "new")
			fine.ProcessAt, broken.ProcessAt = processAt, processAt
			if group != "" {
				fine.Group, broken.Group = "fine", group
			}
			b.Enqueue(ctx, fine, broken)
			return broken.Err
		}
	}
	recoverBy := func(archive bool) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			item := &rdb.Recovery{ID: "t1", Token: "f1", Message: message(t, "t1"), Failed: true, Archive: archive}
			b.Recover(ctx, "q", []*rdb.Recovery{item})
			return item.Err
		}
	}
	tests := []struct {
		name string
		call func(*testing.T, *rdb.Broker) error
		keys []string
	}{
		{"enqueue", enqueue(0, ""), []string{"pending"}},
		{"schedule", enqueue(time.Now().Add(time.Hour).Unix(), ""), []string{"scheduled"}},
		{"group", enqueue(0, "g"), []string{"groups", "g:g"}},
		{"fetch", func(t *testing.T, b *rdb.Broker) error { return fetch(t, b, rdb.Fetch{N: 2}).Err },
			[]string{"pending", "active", "lease"}},
		{"fetch in order", func(t *testing.T, b *rdb.Broker) error {
			return fetch(t, b, rdb.Fetch{N: 2, MaxActive: rdb.InOrder}).Err
		},
			[]string{"retry", "lease"}},
		{"unfetch", func(_ *testing.T, b *rdb.Broker) error {
			u := &rdb.Undo{Queue: "q", Token: "f1"}
			b.Turn(ctx, &rdb.Turn{Undo: []*rdb.Undo{u}})
			return u.Err
		}, []string{"pending", "active", "lease"}},
		{"done", settleBy(rdb.Done), []string{"active", "lease"}},
		{"complete", settleBy(rdb.Complete), []string{"active", "lease", "completed"}},
		{"retry", settleBy(rdb.Retry), []string{"active", "lease", "retry"}},
		{"archive", settleBy(rdb.Archive), []string{"active", "lease", "archived"}},
		{"requeue", settleBy(rdb.Requeue), []string{"active", "lease", "pending"}},
		{"extend", func(_ *testing.T, b *rdb.Broker) error {
			held := []rdb.Held{{ID: "t1", Token: "f1"}}
			b.Extend(ctx, "q", time.Minute, held)
			return held[0].Err
		}, []string{"lease"}},
		{"expired", func(_ *testing.T, b *rdb.Broker) error {
			_, _, _, err := b.Expired(ctx, "q", 0, 10)
			return err
		}, []string{"lease"}},
		{"recover", recoverBy(false), []string{"active", "lease", "pending"}},
		{"recover into the archive", recoverBy(true), []string{"active", "lease", "archived"}},
		{"forward", func(_ *testing.T, b *rdb.Broker) error { return b.Forward(ctx, []string{"q"}, nil)[0].Err },
			[]string{"scheduled", "pending", "groups"}},
		{"expire completed", func(_ *testing.T, b *rdb.Broker) error {
			_, err := b.ExpireCompleted(ctx, "q", 10)
			return err
		}, []string{"completed"}},
		{"trim archived", func(_ *testing.T, b *rdb.Broker) error {
			_, err := b.TrimArchived(ctx, "q", 10)
			return err
		}, []string{"archived"}},
	}
	for _, tt := range tests {
		for _, key := range tt.keys {
			t.Run(tt.name+"/"+key, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					r.AllowViolations()
					seedMalformed(t, r, tt.name)
					must(t, r.Client().Del(ctx, "asynq:{q}:"+key))
					must(t, r.Client().Set(ctx, "asynq:{q}:"+key, "of another type", 0))
					unchanged(t, r, tt.name, func() {
						if err := tt.call(t, r.Broker()); err == nil || !rdb.Refused(err) {
							t.Errorf("got the error %v", err)
						}
					})
				})
			})
		}
	}
}

// seedMalformed makes tasks t1 and t2 active under f1, and due for recovery where that is called; t3 and t4 pending, and due ones
// in scheduled and retry.
func seedMalformed(t *testing.T, r *redistest.Redis, call string) {
	t.Helper()
	ctx := context.Background()
	r.Enqueue(t, "q", 4)
	r.Fetch(t, "q", 2)
	if call == "recover" || call == "recover into the archive" {
		expire(t, r, time.Hour, "t1", "t2")
	}
	delayed(t, r, "due", -time.Hour)
	if call == "forward" { // only what is in its way must make it fail
		must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: "later"}))
	}
}

// A hash of another type is no task: it is told of or dropped, and leaves the others of its batch alone.
func TestWrongTypeOfTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		r.Enqueue(t, "q", 3)
		f := r.Fetch(t, "q", 2)
		delayed(t, r, "due", -time.Hour)
		for _, id := range []string{"t1", "t3", "due"} {
			must(t, client.Set(ctx, "asynq:{q}:t:"+id, "no task", 0))
		}

		if f := fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || len(f.Dropped) != 1 || f.Dropped[0] != "t3" {
			t.Errorf("fetch: %+v", f)
		}
		if due := forward(t, b); due.Dropped != 1 || due.Moved != 0 {
			t.Errorf("forward: %+v", due)
		}
		held := []rdb.Held{{ID: "t1", Token: f.Token}, {ID: "t2", Token: f.Token}}
		b.Extend(ctx, "q", time.Minute, held)
		if held[0].Err != nil || held[0].Code != rdb.CodeGone || held[1].Code != rdb.CodeOK {
			t.Errorf("extend: %+v", held)
		}
		task := redistest.NewTask(t, "q", "t1")
		if b.Enqueue(ctx, task); task.Err == nil {
			t.Error("a task was made in place of something else")
		}
		expire(t, r, time.Hour, "t1")
		tasks, _, _, err := b.Expired(ctx, "q", 0, 10)
		if err != nil || len(tasks) != 1 || tasks[0].Message != nil {
			t.Errorf("expired: %+v, error %v", tasks, err)
		}
		item := &rdb.Recovery{ID: "t1"}
		if b.Recover(ctx, "q", []*rdb.Recovery{item}); item.Err != nil || item.Code != rdb.CodeGone {
			t.Errorf("recover: %+v", item)
		}
		if n := client.LLen(ctx, "asynq:{q}:active").Val() + client.ZCard(ctx, "asynq:{q}:lease").Val(); n != 2 {
			t.Errorf("%d entries are left in active and lease, want 2 of t2", n)
		}
	})
}

// In place of the marker anything may stand: it wakes nobody, and holds up nothing.
func TestWrongTypeOfMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		must(t, r.Client().Set(context.Background(), "asynq:{q}:marker", "no marker", 0))
		b := r.Broker()
		r.Enqueue(t, "q", 2)
		f := r.Fetch(t, "q", 1)
		settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Requeue})
		if err := b.PassMarker(context.Background(), "q"); err != nil {
			t.Error(err)
		}
	})
}
