package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// finish makes tasks with a lock each and ends them with an outcome.
func finish(t *testing.T, r *redistest.Redis, outcome rdb.Outcome, ids ...string) {
	t.Helper()
	for _, id := range ids {
		r.Make(t, lock(redistest.NewTask(t, "q", id), id))
		f := r.Fetch(t, "q", 1)
		s := rdb.Settlement{ID: id, Token: f.Token, Outcome: outcome, Retention: 60}
		if code := settle(t, r.Broker(), s); code != rdb.CodeOK {
			t.Fatalf("%v of %s: code %d", outcome, id, code)
		}
	}
}

func TestExpireCompleted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		finish(t, r, rdb.Complete, "a", "b", "c", "kept")
		finish(t, r, rdb.Archive, "archived")
		// As another library leaves it: completed with its lock.
		must(t, client.HSet(ctx, "asynq:{q}:t:a", "unique_key", "asynq:{q}:unique:test:a"))
		must(t, client.Set(ctx, "asynq:{q}:unique:test:a", "a", 0))
		must(t, client.ZAdd(ctx, "asynq:{q}:completed", redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2, Member: "b"},
			redis.Z{Score: 3, Member: "c"}, redis.Z{Score: 4, Member: "missing"}, redis.Z{Score: 5, Member: "archived"}))
		for i, want := range []int{2, 3, 0} {
			if n, err := b.ExpireCompleted(ctx, "q", []int{2, 1000, 1000}[i]); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {archived:now}
			Q:completed = {kept:now+1m0s}
			Q:marker = [1] ttl 1m0s
			Q:processed = 4
			Q:processed:today = 4 ttl 2160h0m0s
			Q:t:archived = {msg:test(payload) settled:f5 state:archived unique_key:asynq:{q}:unique:test:archived}
			Q:t:kept = {msg:test(payload) settled:f4 state:completed}
			Q:unique:test:archived = archived ttl 1m0s
		`)
	})
}

func TestTrimArchivedByAge(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		finish(t, r, rdb.Archive, "a", "b", "kept")
		old := float64(time.Now().Add(-91 * 24 * time.Hour).Unix())
		young := float64(time.Now().Add(-89 * 24 * time.Hour).Unix())
		must(t, r.Client().ZAdd(ctx, "asynq:{q}:archived", redis.Z{Score: old, Member: "a"}, redis.Z{Score: old + 1, Member: "b"},
			redis.Z{Score: young, Member: "kept"}))
		for i, want := range []int{1, 1, 0} {
			if n, err := b.TrimArchived(ctx, "q", 1); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {kept:now-2136h0m0s}
			Q:marker = [1] ttl 1m0s
			Q:t:kept = {msg:test(payload) settled:f3 state:archived unique_key:asynq:{q}:unique:test:kept}
			Q:unique:test:kept = kept ttl 1m0s
		`)
	})
}

func TestTrimArchivedBySize(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		finish(t, r, rdb.Archive, "a", "b", "c", "d", "e")
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			score := float64(time.Now().Add(-time.Hour).Unix() + int64(i))
			must(t, r.Client().ZAdd(ctx, "asynq:{q}:archived", redis.Z{Score: score, Member: id}))
		}
		b.LimitArchive(2)
		for i, want := range []int{2, 1, 0} {
			if n, err := b.TrimArchived(ctx, "q", 2); n != want || err != nil {
				t.Errorf("call %d: %d deleted, want %d, error %v", i, n, want, err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {d:now-1h0m0s e:now-1h0m0s}
			Q:marker = [1] ttl 1m0s
			Q:t:d = {msg:test(payload) settled:f4 state:archived unique_key:asynq:{q}:unique:test:d}
			Q:t:e = {msg:test(payload) settled:f5 state:archived unique_key:asynq:{q}:unique:test:e}
			Q:unique:test:d = d ttl 1m0s
			Q:unique:test:e = e ttl 1m0s
		`)
	})
}

// Archiving more than the archive may keep deletes the oldest in the same step, with their hashes and locks.
func TestArchiveTrims(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		b.LimitArchive(3)
		var tasks []*rdb.NewTask
		for i := range 8 {
			id := fmt.Sprint("a", i)
			tasks = append(tasks, lock(redistest.NewTask(t, "q", id), id))
		}
		r.Make(t, tasks...)
		f := r.Fetch(t, "q", 8)
		for _, part := range [][]rdb.Fetched{f.Tasks[:2], f.Tasks[2:]} {
			var batch []*rdb.Settlement
			for _, task := range part {
				batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: f.Token, Outcome: rdb.Archive})
			}
			b.Turn(ctx, &rdb.Turn{Settle: batch})
			for _, id := range []string{"a0", "a1"} { // the oldest
				r.Client().ZAddXX(ctx, "asynq:{q}:archived", redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: id})
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:archived = {a5:now a6:now a7:now}
			Q:marker = [1] ttl 1m0s
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
		unchanged(t, r, "a refused result", func() {
			if err := b.WriteResult(ctx, "q", "t1", "another", []byte("late")); !errors.Is(err, rdb.ErrTokenLost) {
				t.Errorf("by another token: %v", err)
			}
			if err := b.WriteResult(ctx, "q", "missing", "f1", []byte("late")); !errors.Is(err, rdb.ErrTaskGone) {
				t.Errorf("of no task: %v", err)
			}
		})
		settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Complete, Message: message(t, "t1"), Retention: 60})
		unchanged(t, r, "a late result", func() {
			if err := b.WriteResult(ctx, "q", "t1", "f1", []byte("late")); !errors.Is(err, rdb.ErrTokenLost) {
				t.Errorf("after the end: %v", err)
			}
		})
	})
}
