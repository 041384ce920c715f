package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// TestWrongType gives each key that a script writes a wrong type. The script must return an error
// before it writes anything, because Redis does not roll back.
func TestWrongType(t *testing.T) {
	ctx := context.Background()
	settleBy := func(outcome rdb.Outcome, delay time.Duration) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			batch := []*rdb.Settlement{
				{Queue: "q", ID: "t1", Token: "f1", Outcome: outcome, Message: redistest.FailedMessage(t, "t1"), Retention: 60, Delay: delay},
				{Queue: "q", ID: "t2", Token: "f1", Outcome: outcome, Message: redistest.FailedMessage(t, "t2"), Retention: 60, Delay: delay},
			}
			b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
			return batch[0].Err
		}
	}
	enqueue := func(processAt int64, group string) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			fine, broken := redistest.Lock(redistest.NewTask(t, "q", "fine"), "fine"), redistest.Lock(redistest.NewTask(t, "q", "new"), "new")
			fine.ProcessAt, broken.ProcessAt = processAt, processAt
			if group != "" {
				fine.Group, broken.Group = "fine", group
			}
			b.Enqueue(ctx, fine, broken)
			return broken.Err
		}
	}
	recoverBy := func(outcome rdb.Outcome) func(*testing.T, *rdb.Broker) error {
		return func(t *testing.T, b *rdb.Broker) error {
			item := &rdb.Settlement{
				Queue: "q", ID: "t1", Token: "f1", Outcome: outcome, Message: redistest.FailedMessage(t, "t1"), Failed: true,
			}
			b.Recover(ctx, []*rdb.Settlement{item})
			return item.Err
		}
	}
	tests := []struct {
		name string
		call func(*testing.T, *rdb.Broker) error
		keys []string
	}{
		{"enqueue", enqueue(0, ""), []string{"pending"}},
		{"enqueue random ID", func(t *testing.T, b *rdb.Broker) error {
			task := redistest.NewTask(t, "q", "new")
			task.RandomID = true
			b.Enqueue(ctx, task)
			return task.Err
		}, []string{"pending"}},
		{"schedule", enqueue(time.Now().Add(time.Hour).Unix(), ""), []string{"scheduled"}},
		{"group", enqueue(0, "g"), []string{"groups", "g:g"}},
		{"fetch", func(t *testing.T, b *rdb.Broker) error { return redistest.Fetch(t, b, rdb.Fetch{N: 2}).Err },
			[]string{"pending", "active", "lease"}},
		{"fetch in order", func(t *testing.T, b *rdb.Broker) error {
			return redistest.Fetch(t, b, rdb.Fetch{N: 2, MaxActive: rdb.InOrder}).Err
		},
			[]string{"retry", "lease"}},
		{"reclaim", func(_ *testing.T, b *rdb.Broker) error {
			u := &rdb.Reclaim{Queue: "q", Token: "f1"}
			b.RoundTrip(ctx, &rdb.RoundTrip{Reclaim: []*rdb.Reclaim{u}})
			return u.Err
		}, []string{"pending", "active", "lease"}},
		{"done", settleBy(rdb.Done, time.Minute), []string{"active", "lease"}},
		{"complete", settleBy(rdb.Complete, time.Minute), []string{"active", "lease", "completed"}},
		{"retry", settleBy(rdb.Retry, time.Minute), []string{"active", "lease", "retry"}},
		{"retry at once", settleBy(rdb.Retry, 0), []string{"active", "lease", "pending"}},
		{"archive", settleBy(rdb.Archive, time.Minute), []string{"active", "lease", "archived"}},
		{"requeue", settleBy(rdb.Requeue, time.Minute), []string{"active", "lease", "pending"}},
		{"extend", func(_ *testing.T, b *rdb.Broker) error {
			held := []rdb.Held{{ID: "t1", Token: "f1"}}
			b.Extend(ctx, "q", time.Minute, held)
			return held[0].Err
		}, []string{"lease"}},
		{"expired", func(_ *testing.T, b *rdb.Broker) error {
			_, _, _, err := b.Expired(ctx, "q", 0, 10)
			return err
		}, []string{"lease"}},
		{"recover", recoverBy(rdb.Requeue), []string{"active", "lease", "pending"}},
		{"recover into the archive", recoverBy(rdb.Archive), []string{"active", "lease", "archived"}},
		{"forward", func(_ *testing.T, b *rdb.Broker) error { return b.Forward(ctx, []string{"q"}, nil)[0].Err },
			[]string{"scheduled", "pending", "groups"}},
		{"expire completed", func(_ *testing.T, b *rdb.Broker) error {
			_, err := b.Purge(ctx, "q", wire.StateCompleted, 10)
			return err
		}, []string{"completed"}},
		{"trim archived", func(_ *testing.T, b *rdb.Broker) error {
			_, err := b.Purge(ctx, "q", wire.StateArchived, 10)
			return err
		}, []string{"archived"}},
	}
	for _, tt := range tests {
		for _, key := range tt.keys {
			t.Run(tt.name+"/"+key, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					r.AllowViolations()
					seedMalformed(t, r, tt.name)
					redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:"+key))
					redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:"+key, "of another type", 0))
					redistest.Unchanged(t, r, tt.name, func() {
						if err := tt.call(t, r.Broker()); err == nil || !script.Refused(err) {
							t.Errorf("got the error %v", err)
						}
					})
				})
			})
		}
	}
}

// seedMalformed makes tasks t1 and t2 active under f1, and due for recovery where that is called;
// t3 and t4 pending, and due ones in scheduled and retry.
func seedMalformed(t *testing.T, r *redistest.Redis, call string) {
	t.Helper()
	ctx := context.Background()
	r.Enqueue(t, "q", 4)
	r.Fetch(t, "q", 2)
	if call == "recover" || call == "recover into the archive" {
		redistest.ExpireLeases(t, r, time.Hour, "t1", "t2")
	}
	delayed(t, r, "due", -time.Hour)
	if call == "forward" { // only a key that it uses may make it fail
		redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: "later"}))
	}
}

// A task key that is not a hash is reported or dropped, and does not affect the rest of its batch.
func TestWrongTypeOfTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		r.Enqueue(t, "q", 3)
		f := r.Fetch(t, "q", 2)
		delayed(t, r, "due", -time.Hour)
		for _, id := range []string{"t1", "t3", "due"} {
			redistest.Must(t, client.Set(ctx, "asynq:{q}:t:"+id, "no task", 0))
		}

		if f := redistest.Fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || len(f.Dropped) != 1 || f.Dropped[0] != "t3" {
			t.Errorf("fetch: %+v", f)
		}
		if due := redistest.Forward(t, b); due.Dropped != 1 || due.Moved != 0 {
			t.Errorf("forward: %+v", due)
		}
		held := []rdb.Held{{ID: "t1", Token: f.Token}, {ID: "t2", Token: f.Token}}
		b.Extend(ctx, "q", time.Minute, held)
		if held[0].Err != nil || held[0].Code != script.CodeGone || held[1].Code != script.CodeOK {
			t.Errorf("extend: %+v", held)
		}
		task := redistest.NewTask(t, "q", "t1")
		if b.Enqueue(ctx, task); task.Err == nil {
			t.Error("a task was made in place of something else")
		}
		redistest.ExpireLeases(t, r, time.Hour, "t1")
		tasks, _, _, err := b.Expired(ctx, "q", 0, 10)
		if err != nil || len(tasks) != 1 || tasks[0].Message != nil {
			t.Errorf("expired: %+v, error %v", tasks, err)
		}
		item := &rdb.Settlement{Queue: "q", ID: "t1", Outcome: rdb.Requeue}
		if b.Recover(ctx, []*rdb.Settlement{item}); item.Err != nil || item.Code != script.CodeGone {
			t.Errorf("recover: %+v", item)
		}
		if n := client.LLen(ctx, "asynq:{q}:active").Val() + client.ZCard(ctx, "asynq:{q}:lease").Val(); n != 2 {
			t.Errorf("%d entries are left in active and lease, want 2 of t2", n)
		}
	})
}

// A marker key of a wrong type wakes no server and makes no call fail.
func TestWrongTypeOfMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{q}:marker", "no marker", 0))
		b := r.Broker()
		r.Enqueue(t, "q", 2)
		f := r.Fetch(t, "q", 1)
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Requeue})
		if err := b.PassMarker(context.Background(), "q"); err != nil {
			t.Error(err)
		}
	})
}
