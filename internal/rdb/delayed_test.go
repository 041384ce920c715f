package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// delayed makes a task of queue q that is due after a time.
func delayed(t *testing.T, r *redistest.Redis, id string, in time.Duration) {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.ProcessAt = time.Now().Add(in).Unix()
	r.Make(t, task)
}

// forward moves what is due in queue q.
func forward(t *testing.T, b *rdb.Broker) rdb.Due {
	t.Helper()
	due := b.Forward(context.Background(), []string{"q"}, nil)
	if len(due) != 1 || due[0].Queue != "q" || due[0].Err != nil {
		t.Fatalf("forward: %+v", due)
	}
	return due[0]
}

func TestForward(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		unchanged(t, r, "a look at an empty queue", func() {
			if due := forward(t, b); due != (rdb.Due{Queue: "q", Next: -1}) {
				t.Errorf("an empty queue: %+v", due)
			}
		})
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Retry})
		must(t, client.ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: 1, Member: "t1"}))
		delayed(t, r, "first", -2*time.Hour)
		delayed(t, r, "second", -time.Hour)
		delayed(t, r, "later", time.Hour)
		must(t, client.ZAdd(ctx, "asynq:{q}:scheduled", redis.Z{Score: 1, Member: "missing"}, redis.Z{Score: 2, Member: "t1"}))
		must(t, client.Del(ctx, "asynq:{q}:marker"))

		due := forward(t, b)
		if due.Moved != 3 || due.Dropped != 2 || due.More || due.Next < 59*time.Minute || due.Next > time.Hour {
			t.Errorf("got %+v", due)
		}
		const want = `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t1 second first]
			Q:scheduled = {later:now+1h0m0s}
			Q:t:first = {msg:test(payload) pending_since:now state:pending}
			Q:t:later = {msg:test(payload) state:scheduled}
			Q:t:second = {msg:test(payload) pending_since:now state:pending}
			Q:t:t1 = {msg:test(payload) pending_since:now settled:f1 state:pending}
		`
		wantDump(t, r, want)
		unchanged(t, r, "a second look", func() {
			if due := forward(t, b); due.Moved != 0 || due.Dropped != 0 {
				t.Errorf("a second look: %+v", due)
			}
		})
	})
}

// delayedInGroup makes a task that is due, and then waits in group g.
func delayedInGroup(t *testing.T, r *redistest.Redis, id string) {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.ProcessAt, task.Group = time.Now().Add(-time.Hour).Unix(), "g"
	r.Make(t, task)
}

func TestForwardToGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		delayedInGroup(t, r, "a")
		delayed(t, r, "b", -time.Hour)
		must(t, r.Client().HSet(context.Background(), "asynq:{q}:t:b", "group", ""))
		if due := forward(t, r.Broker()); due.Moved != 2 || due.Dropped != 0 || due.Next >= 0 {
			t.Errorf("got %+v", due)
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:g:g = {a:now}
			Q:groups = {g}
			Q:groups_due = {g:now} ttl 1h0m0s
			Q:marker = [1] ttl 1m0s
			Q:pending = [b]
			Q:t:a = {group:g msg:test(payload) state:aggregating}
			Q:t:b = {group: msg:test(payload) pending_since:now state:pending}
		`)
	})
}

func TestForwardToBrokenGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		must(t, r.Client().Set(context.Background(), "asynq:{q}:g:g", "no group", 0))
		delayedInGroup(t, r, "a")
		delayed(t, r, "b", -time.Hour)
		due := forward(t, r.Broker())
		if due.Dropped != 0 || due.More {
			t.Errorf("got %+v", due)
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:g:g = no group
			Q:marker = [1] ttl 1m0s
			Q:pending = [b]
			Q:scheduled = {a:now+1m0s}
			Q:t:a = {group:g msg:test(payload) state:scheduled}
			Q:t:b = {msg:test(payload) pending_since:now state:pending}
		`)
	})
}

func TestForwardTellsOfMore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		var tasks []*rdb.NewTask
		for _, id := range r.Enqueue(t, "other", 600) {
			task := redistest.NewTask(t, "q", id)
			task.ProcessAt = time.Now().Add(-time.Hour).Unix()
			tasks = append(tasks, task)
		}
		r.Make(t, tasks...)
		b := r.Broker()
		if due := forward(t, b); due.Moved != 500 || !due.More || due.Next != 0 {
			t.Errorf("first: %+v", due)
		}
		if due := forward(t, b); due.Moved != 100 || due.More || due.Next >= 0 {
			t.Errorf("then: %+v", due)
		}
	})
}

// The time until the next one is due is exact to the millisecond, and rounded up: a forwarder that comes back then finds it due.
func TestForwardTellsWhenToComeBack(t *testing.T) {
	r := redistest.Mini(t)
	r.SetTime(time.Unix(1_800_000_000, 250_400_000))
	task := redistest.NewTask(t, "q", "a")
	task.ProcessAt = 1_800_000_003
	r.Make(t, task)
	due := forward(t, r.Broker())
	if want := 2750 * time.Millisecond; due.Next != want {
		t.Errorf("next in %v, want %v", due.Next, want)
	}
	r.SetTime(time.Unix(1_800_000_000, 250_400_000).Add(due.Next))
	if due := forward(t, r.Broker()); due.Moved != 1 {
		t.Errorf("then: %+v", due)
	}
}

func TestForwardWithOneBrokenQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		delayed(t, r, "a", -time.Hour)
		must(t, r.Client().Set(context.Background(), "asynq:{broken}:scheduled", "of a wrong type", 0))
		due := r.Broker().Forward(context.Background(), []string{"broken", "q"}, nil)
		if due[0].Queue != "broken" || due[0].Err == nil || !rdb.Refused(due[0].Err) || due[1].Err != nil || due[1].Moved != 1 {
			t.Errorf("got %+v", due)
		}
	})
}

func TestDelayed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		var got []bool
		look := func() {
			some, err := b.Delayed(ctx, []string{"r", "q"})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, some)
		}
		look()
		r.Enqueue(t, "q", 1)
		look()
		delayed(t, r, "a", time.Hour)
		look()
		if diff := cmp.Diff([]bool{false, false, true}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
