package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// keyed gives a task an idempotency key for an hour.
func keyed(n *rdb.NewTask, key string) *rdb.NewTask {
	n.Mode = &rdb.Mode{Key: key, TTL: 3600}
	return n
}

// wantFirst reports an error unless the key of a task names that first task.
func wantFirst(t *testing.T, n *rdb.NewTask, id string) {
	t.Helper()
	if n.Err != nil || n.Mode.FirstID != id {
		t.Errorf("task %q with the key %q: the first one is %q, want %q; error %v", n.ID, n.Mode.Key, n.Mode.FirstID, id, n.Err)
	}
}

func TestEnqueueOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		scheduled := keyed(redistest.NewTask(t, "q", "b"), "two")
		scheduled.ProcessAt = time.Now().Add(time.Hour).Unix()
		grouped := keyed(redistest.NewTask(t, "q", "c"), "three")
		grouped.Group = "g"
		locked := keyed(redistest.Lock(redistest.NewTask(t, "q", "d"), "d"), "four")
		short := keyed(redistest.NewTask(t, "q", "e"), "five")
		short.Mode.TTL = 1
		first := keyed(redistest.NewTask(t, "q", "a"), "one")
		r.Make(t, first, scheduled, grouped, locked, short)
		for _, n := range []*rdb.NewTask{first, scheduled, grouped, locked, short} {
			wantFirst(t, n, n.ID)
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:g:g = {c:now}
			Q:groups = {g}
			Q:groups_due = {g:now} ttl 1h0m0s
			Q:marker = [1] ttl 1m0s
			Q:once:five = e ttl 2m0s
			Q:once:four = d ttl 1h0m0s
			Q:once:one = a ttl 1h0m0s
			Q:once:three = c ttl 1h0m0s
			Q:once:two = b ttl 1h0m0s
			Q:pending = [e d a]
			Q:scheduled = {b:now+1h0m0s}
			Q:t:a = {msg:test(payload) pending_since:now state:pending}
			Q:t:b = {msg:test(payload) state:scheduled}
			Q:t:c = {group:g msg:test(payload) state:aggregating}
			Q:t:d = {msg:test(payload) pending_since:now state:pending unique_key:asynq:{q}:unique:test:d}
			Q:t:e = {msg:test(payload) pending_since:now state:pending}
			Q:unique:test:d = d ttl 1m0s
		`)
		redistest.Unchanged(t, r, "tasks whose keys are in use", func() {
			again := keyed(redistest.Lock(redistest.NewTask(t, "q", "x"), "d"), "one")
			same := keyed(redistest.NewTask(t, "q", "b"), "two")
			r.Broker().Enqueue(context.Background(), again, same)
			wantFirst(t, again, "a")
			wantFirst(t, same, "b")
		})
	})
}

// A key outlives its task, and names it until the key expires.
func TestEnqueueOnceOutlivesTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Make(t, keyed(redistest.NewTask(t, "q", "a"), "key"))
		f := r.Fetch(t, "q", 1)
		if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Done}); code != script.CodeOK {
			t.Fatalf("settle: code %d", code)
		}
		redistest.Unchanged(t, r, "a key whose task is gone", func() {
			again := keyed(redistest.NewTask(t, "q", "b"), "key")
			b.Enqueue(ctx, again)
			wantFirst(t, again, "a")
		})
		redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:once:key"))
		later := keyed(redistest.NewTask(t, "q", "c"), "key")
		b.Enqueue(ctx, later)
		wantFirst(t, later, "c")
	})
}

// A rejected task leaves its key to the next one, also in the same call. Tasks of one call share
// the key of the first.
func TestEnqueueOnceInOneCall(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "taken"), "lock"))
		conflict := keyed(redistest.NewTask(t, "q", "taken"), "key")
		duplicate := keyed(redistest.Lock(redistest.NewTask(t, "q", "a"), "lock"), "key")
		first, second := keyed(redistest.NewTask(t, "q", "b"), "key"), keyed(redistest.NewTask(t, "q", "c"), "key")
		other := keyed(redistest.NewTask(t, "q", "d"), "other")
		elsewhere := keyed(redistest.NewTask(t, "r", "e"), "key")
		plain := redistest.NewTask(t, "q", "f")
		r.Broker().Enqueue(context.Background(), conflict, duplicate, first, second, other, elsewhere, plain)
		if !errors.Is(conflict.Err, script.ErrTaskIDConflict) || !errors.Is(duplicate.Err, script.ErrDuplicateTask) || plain.Err != nil {
			t.Errorf("errors: %v, %v, %v", conflict.Err, duplicate.Err, plain.Err)
		}
		wantFirst(t, first, "b")
		wantFirst(t, second, "b")
		wantFirst(t, other, "d")
		wantFirst(t, elsewhere, "e")
		for id, want := range map[string]bool{"a": false, "b": true, "c": false, "d": true} {
			if n := r.Client().Exists(context.Background(), "asynq:{q}:t:"+id).Val(); (n == 1) != want {
				t.Errorf("task %q exists: %t", id, n == 1)
			}
		}
	})
}

// A call whose reply was lost is sent again, and finds its own tasks.
func TestEnqueueOnceRepeated(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, redistest.NewTask(t, "q", "taken"))
		b := redistest.RepeatingBroker(t, r)
		conflict := keyed(redistest.NewTask(t, "q", "taken"), "one")
		first, second := keyed(redistest.NewTask(t, "q", "a"), "two"), keyed(redistest.NewTask(t, "q", "b"), "two")
		b.Enqueue(context.Background(), conflict, first, second)
		wantFirst(t, first, "a")
		wantFirst(t, second, "a")
		if !errors.Is(conflict.Err, script.ErrTaskIDConflict) {
			t.Errorf("a rejected task: %v", conflict.Err)
		}
		if n := r.Client().LLen(context.Background(), "asynq:{q}:pending").Val(); n != 2 {
			t.Errorf("%d tasks are pending, want 2", n)
		}
	})
}

// 1,200 tasks need several calls, and each key still makes one task.
func TestEnqueueOnceMany(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		tasks := make([]*rdb.NewTask, 1200)
		for i := range tasks {
			tasks[i] = keyed(redistest.NewTask(t, "q", fmt.Sprint("t", i)), fmt.Sprint(i%700))
		}
		r.Broker().Enqueue(context.Background(), tasks...)
		for i, n := range tasks {
			wantFirst(t, n, fmt.Sprint("t", i%700))
		}
		if n := r.Client().LLen(context.Background(), "asynq:{q}:pending").Val(); n != 700 {
			t.Errorf("%d tasks are pending, want 700", n)
		}
	})
}

// A call with a key of another type fails, and writes nothing.
func TestEnqueueOnceBroken(t *testing.T) {
	for name, plant := range map[string]func(*rdb.NewTask) string{
		"idempotency key": func(*rdb.NewTask) string { return "once:key" },
		"pending":         func(*rdb.NewTask) string { return "pending" },
		"scheduled":       func(n *rdb.NewTask) string { n.ProcessAt = time.Now().Add(time.Hour).Unix(); return "scheduled" },
		"group":           func(n *rdb.NewTask) string { n.Group = "g"; return "g:g" },
		"groups":          func(n *rdb.NewTask) string { n.Group = "g"; return "groups" },
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, broken := context.Background(), keyed(redistest.NewTask(t, "q", "a"), "key")
				key := "asynq:{q}:" + plant(broken)
				redistest.Must(t, r.Client().HSet(ctx, key, "not", "usable"))
				redistest.Must(t, r.Client().SAdd(ctx, "asynq:queues", "q"))
				redistest.Unchanged(t, r, "a failed call", func() {
					good := keyed(redistest.NewTask(t, "q", "b"), "other")
					if r.Broker().Enqueue(ctx, good, broken); broken.Err == nil || good.Err == nil {
						t.Errorf("errors: %v, %v", good.Err, broken.Err)
					}
				})
			})
		})
	}
}
