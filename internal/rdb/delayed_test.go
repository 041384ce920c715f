package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// delayed creates a task of queue q that is due after a time.
func delayed(t *testing.T, r *redistest.Redis, id string, in time.Duration) {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.ProcessAt = time.Now().Add(in).Unix()
	r.Make(t, task)
}

func TestForward(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		redistest.Unchanged(t, r, "a look at an empty queue", func() {
			if due := redistest.Forward(t, b); due != (rdb.Due{Queue: "q", Next: -1}) {
				t.Errorf("an empty queue: %+v", due)
			}
		})
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Defer})
		redistest.Must(t, client.ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: 1, Member: "t1"}))
		delayed(t, r, "first", -2*time.Hour)
		delayed(t, r, "second", -time.Hour)
		delayed(t, r, "later", time.Hour)
		redistest.Must(t, client.ZAdd(ctx, "asynq:{q}:scheduled", redis.Z{Score: 1, Member: "missing"}, redis.Z{Score: 2, Member: "t1"}))
		redistest.Must(t, client.Del(ctx, "asynq:{q}:marker"))

		due := redistest.Forward(t, b)
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
		redistest.WantDump(t, r, want)
		redistest.Unchanged(t, r, "a second look", func() {
			if due := redistest.Forward(t, b); due.Moved != 0 || due.Dropped != 0 {
				t.Errorf("a second look: %+v", due)
			}
		})
	})
}

// delayedInGroup creates a delayed task that enters group g when it is due.
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
		redistest.Must(t, r.Client().HSet(context.Background(), "asynq:{q}:t:b", "group", ""))
		if due := redistest.Forward(t, r.Broker()); due.Moved != 2 || due.Dropped != 0 || due.Next >= 0 {
			t.Errorf("got %+v", due)
		}
		redistest.WantDump(t, r, `
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
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{q}:g:g", "no group", 0))
		delayedInGroup(t, r, "a")
		delayed(t, r, "b", -time.Hour)
		due := redistest.Forward(t, r.Broker())
		if due.Dropped != 0 || due.More {
			t.Errorf("got %+v", due)
		}
		redistest.WantDump(t, r, `
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
		if due := redistest.Forward(t, b); due.Moved != 500 || !due.More || due.Next != 0 {
			t.Errorf("first: %+v", due)
		}
		if due := redistest.Forward(t, b); due.Moved != 100 || due.More || due.Next >= 0 {
			t.Errorf("then: %+v", due)
		}
	})
}

// The time until the next one is due is exact to the millisecond, and rounded up: a forwarder that
// comes back then finds it due.
func TestForwardTellsWhenToComeBack(t *testing.T) {
	r := redistest.Mini(t)
	r.SetTime(time.Unix(1_800_000_000, 250_400_000))
	task := redistest.NewTask(t, "q", "a")
	task.ProcessAt = 1_800_000_003
	r.Make(t, task)
	due := redistest.Forward(t, r.Broker())
	if want := 2750 * time.Millisecond; due.Next != want {
		t.Errorf("next in %v, want %v", due.Next, want)
	}
	r.SetTime(time.Unix(1_800_000_000, 250_400_000).Add(due.Next))
	if due := redistest.Forward(t, r.Broker()); due.Moved != 1 {
		t.Errorf("then: %+v", due)
	}
}

func TestForwardWithOneBrokenQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		delayed(t, r, "a", -time.Hour)
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{broken}:scheduled", "of a wrong type", 0))
		due := r.Broker().Forward(context.Background(), []string{"broken", "q"}, nil)
		if due[0].Queue != "broken" || due[0].Err == nil || !script.Refused(due[0].Err) || due[1].Err != nil || due[1].Moved != 1 {
			t.Errorf("got %+v", due)
		}
	})
}

func TestFilled(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		var got []string
		look := func() {
			some, err := b.Filled(ctx, []string{"r", "q"}, wire.Queue.Scheduled, wire.Queue.Retry)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(some))
		}
		look()
		r.Enqueue(t, "q", 1)
		look()
		delayed(t, r, "a", time.Hour)
		look()
		if diff := cmp.Diff([]string{"[]", "[]", "[q]"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// finish creates tasks with a lock each and settles them with an outcome.
func finish(t *testing.T, r *redistest.Redis, outcome rdb.Outcome, ids ...string) {
	t.Helper()
	for _, id := range ids {
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", id), id))
		f := r.Fetch(t, "q", 1)
		s := rdb.Settlement{ID: id, Token: f.Token, Outcome: outcome, Retention: 60}
		if code := redistest.Settle(t, r.Broker(), s); code != script.CodeOK {
			t.Fatalf("%v of %s: code %d", outcome, id, code)
		}
	}
}

func TestPurgeCompleted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		finish(t, r, rdb.Complete, "a", "b", "c", "kept")
		finish(t, r, rdb.Archive, "archived")
		// As another library leaves it: completed with its lock.
		redistest.Must(t, client.HSet(ctx, "asynq:{q}:t:a", "unique_key", "asynq:{q}:unique:test:a"))
		redistest.Must(t, client.Set(ctx, "asynq:{q}:unique:test:a", "a", 0))
		redistest.Must(t, client.ZAdd(ctx, "asynq:{q}:completed", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"},
			redis.Z{Score: 3, Member: "c"}, redis.Z{Score: 4, Member: "missing"}, redis.Z{Score: 5, Member: "archived"},
			redis.Z{Score: float64(time.Now().Add(30 * time.Second).Unix()), Member: "kept"}))
		for i, want := range []int{2, 3, 0} {
			if n, err := b.Purge(ctx, "q", wire.StateCompleted, []int{2, 1000, 1000}[i]); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {archived:now}
			Q:completed = {kept:now+30s}
			Q:failed = 1
			Q:failed:today = 1 ttl 2160h0m0s
			Q:marker = [1] ttl 1m0s
			Q:processed = 5
			Q:processed:today = 5 ttl 2160h0m0s
			Q:t:archived = {msg:test(payload) settled:f5 state:archived unique_key:asynq:{q}:unique:test:archived}
			Q:t:kept = {msg:test(payload) settled:f4 state:completed}
			Q:unique:test:archived = archived ttl 1m0s
		`)
	})
}

func TestPurgeArchivedByAge(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		finish(t, r, rdb.Archive, "a", "b", "kept")
		old := float64(time.Now().Add(-91 * 24 * time.Hour).Unix())
		young := float64(time.Now().Add(-89 * 24 * time.Hour).Unix())
		redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:archived", redis.Z{Score: old, Member: "a"}, redis.Z{Score: old + 1, Member: "b"},
			redis.Z{Score: young, Member: "kept"}))
		for i, want := range []int{1, 1, 0} {
			if n, err := b.Purge(ctx, "q", wire.StateArchived, 1); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {kept:now-2136h0m0s}
			Q:failed = 3
			Q:failed:today = 3 ttl 2160h0m0s
			Q:marker = [1] ttl 1m0s
			Q:processed = 3
			Q:processed:today = 3 ttl 2160h0m0s
			Q:t:kept = {msg:test(payload) settled:f3 state:archived unique_key:asynq:{q}:unique:test:kept}
			Q:unique:test:kept = kept ttl 1m0s
		`)
	})
}

func TestPurgeArchivedBySize(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		finish(t, r, rdb.Archive, "a", "b", "c", "d", "e")
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			score := float64(time.Now().Add(-time.Hour).Unix() + 10*int64(i))
			redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:archived", redis.Z{Score: score, Member: id}))
		}
		b.Archive.Tasks = 2
		for i, want := range []int{2, 1, 0} {
			if n, err := b.Purge(ctx, "q", wire.StateArchived, 2); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {d:now-59m30s e:now-59m20s}
			Q:failed = 5
			Q:failed:today = 5 ttl 2160h0m0s
			Q:marker = [1] ttl 1m0s
			Q:processed = 5
			Q:processed:today = 5 ttl 2160h0m0s
			Q:t:d = {msg:test(payload) settled:f4 state:archived unique_key:asynq:{q}:unique:test:d}
			Q:t:e = {msg:test(payload) settled:f5 state:archived unique_key:asynq:{q}:unique:test:e}
			Q:unique:test:d = d ttl 1m0s
			Q:unique:test:e = e ttl 1m0s
		`)
	})
}

// Archiving more than the archive may keep deletes the oldest in the same step, with their hashes
// and locks.
func TestArchiveTrims(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		b.Archive.Tasks = 3
		var tasks []*rdb.NewTask
		for i := range 8 {
			id := fmt.Sprint("a", i)
			tasks = append(tasks, redistest.Lock(redistest.NewTask(t, "q", id), id))
		}
		r.Make(t, tasks...)
		f := r.Fetch(t, "q", 8)
		for _, part := range [][]rdb.Fetched{f.Tasks[:2], f.Tasks[2:]} {
			var batch []*rdb.Settlement
			for _, task := range part {
				batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: f.Token, Outcome: rdb.Archive})
			}
			b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
			for _, id := range []string{"a0", "a1"} { // the oldest
				r.Client().ZAddXX(ctx, "asynq:{q}:archived", redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: id})
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {a5:now a6:now a7:now}
			Q:failed = 8
			Q:failed:today = 8 ttl 2160h0m0s
			Q:marker = [1] ttl 1m0s
			Q:processed = 8
			Q:processed:today = 8 ttl 2160h0m0s
			Q:t:a5 = {msg:test(payload) settled:f1 state:archived unique_key:asynq:{q}:unique:test:a5}
			Q:t:a6 = {msg:test(payload) settled:f1 state:archived unique_key:asynq:{q}:unique:test:a6}
			Q:t:a7 = {msg:test(payload) settled:f1 state:archived unique_key:asynq:{q}:unique:test:a7}
			Q:unique:test:a5 = a5 ttl 1m0s
			Q:unique:test:a6 = a6 ttl 1m0s
			Q:unique:test:a7 = a7 ttl 1m0s
		`)
	})
}

func TestWriteResult(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		for _, result := range []string{"first", "second"} {
			if err := b.WriteResult(ctx, "q", "t1", "f1", []byte(result)); err != nil {
				t.Error(err)
			}
			if got := r.Client().HGet(ctx, "asynq:{q}:t:t1", "result").Val(); got != result {
				t.Errorf("the result is %q, want %q", got, result)
			}
		}
		redistest.Unchanged(t, r, "a refused result", func() {
			if err := b.WriteResult(ctx, "q", "t1", "another", []byte("late")); !errors.Is(err, script.ErrTokenLost) {
				t.Errorf("by another token: %v", err)
			}
			if err := b.WriteResult(ctx, "q", "missing", "f1", []byte("late")); !errors.Is(err, script.ErrTaskGone) {
				t.Errorf("of no task: %v", err)
			}
		})
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Complete, Message: redistest.FailedMessage(t, "t1"), Retention: 60})
		redistest.Unchanged(t, r, "a late result", func() {
			if err := b.WriteResult(ctx, "q", "t1", "f1", []byte("late")); !errors.Is(err, script.ErrTokenLost) {
				t.Errorf("after the end: %v", err)
			}
		})
	})
}
