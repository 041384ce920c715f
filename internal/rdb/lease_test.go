package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestExtend(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		f := r.Fetch(t, "q", 2)
		held := []rdb.Held{{ID: "t1", Token: f.Token}, {ID: "t2", Token: "another"}, {ID: "t3", Token: f.Token}, {ID: "gone", Token: f.Token}}
		b.Extend(ctx, "q", 90*time.Second, held)
		for i, want := range []rdb.Code{rdb.CodeOK, rdb.CodeLost, rdb.CodeLost, rdb.CodeGone} {
			if held[i].Err != nil || held[i].Code != want {
				t.Errorf("%s: code %d, want %d, error %v", held[i].ID, held[i].Code, want, held[i].Err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:active = [t2 t1]
			Q:lease = {t1:now+1m30s t2:now+30s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t3]
			Q:t:t1 = {msg:test(payload) state:active token:f1}
			Q:t:t2 = {msg:test(payload) state:active token:f1}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
		`)
		settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Retry, Delay: time.Minute})
		unchanged(t, r, "extending what is settled", func() {
			late := []rdb.Held{{ID: "t1", Token: f.Token}}
			if b.Extend(ctx, "q", time.Hour, late); late[0].Code != rdb.CodeLost {
				t.Errorf("a settled task: code %d", late[0].Code)
			}
		})
	})
}

func TestExtendMany(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		made := r.Enqueue(t, "q", 1100)
		var held []rdb.Held
		for _, part := range []int{500, 500, 100} {
			f := r.Fetch(t, "q", part)
			for _, task := range f.Tasks {
				held = append(held, rdb.Held{ID: task.ID, Token: f.Token})
			}
		}
		r.Broker().Extend(ctx, "q", time.Hour, held)
		for _, h := range held {
			if h.Err != nil || h.Code != rdb.CodeOK {
				t.Fatalf("%s: code %d, error %v", h.ID, h.Code, h.Err)
			}
		}
		later := fmt.Sprint(time.Now().Add(time.Minute).Unix())
		if n := r.Client().ZCount(ctx, "asynq:{q}:lease", later, "+inf").Val(); n != int64(len(made)) {
			t.Errorf("%d leases were extended, want %d", n, len(made))
		}
	})
}

// expire lets the leases of tasks end some time ago, the first one's first.
func expire(t *testing.T, r *redistest.Redis, ago time.Duration, ids ...string) {
	t.Helper()
	end := time.Now().Add(-ago).Unix()
	for i, id := range ids {
		must(t, r.Client().ZAddXX(context.Background(), "asynq:{q}:lease", redis.Z{Score: float64(end + int64(i)), Member: id}))
	}
}

func TestExpired(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		tasks, looked, next, err := b.Expired(ctx, "q", 0, 10)
		if tasks != nil || looked != 0 || next >= 0 || err != nil {
			t.Errorf("without leases: %v, looked at %d, next in %v, error %v", tasks, looked, next, err)
		}
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 4)
		expire(t, r, time.Hour, "t1", "t2")
		must(t, client.HDel(ctx, "asynq:{q}:t:t2", "token")) // as if another library held it
		expire(t, r, 10*time.Second, "t3")
		must(t, client.HDel(ctx, "asynq:{q}:t:t3", "token"))
		must(t, client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Score: 1, Member: "gone"}, redis.Z{Score: 2, Member: "string"}))
		must(t, client.Set(ctx, "asynq:{q}:t:string", "no task", 0))

		tasks, looked, next, err = b.Expired(ctx, "q", 0, 10)
		if looked != 5 || next < 20*time.Second || next > 31*time.Second || err != nil {
			t.Errorf("looked at %d, next in %v, error %v", looked, next, err)
		}
		want := []rdb.Expired{
			{ID: "gone"}, {ID: "string"},
			{ID: "t1", Token: f.Token, Message: redistest.Encode(t, redistest.Message("q", "t1"))},
			{ID: "t2", Message: redistest.Encode(t, redistest.Message("q", "t2"))},
			// t3's is left for half a minute more: its holder's clock may be behind.
		}
		if diff := cmp.Diff(want, tasks); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		tasks, looked, _, err = b.Expired(ctx, "q", 2, 1)
		if len(tasks) != 1 || tasks[0].ID != "t1" || looked != 1 || err != nil {
			t.Errorf("one after two: %v, looked at %d, error %v", tasks, looked, err)
		}
	})
}

// An active task whose message is missing is not one that does not exist.
func TestExpiredTaskWithoutMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		expire(t, r, time.Hour, "t1")
		must(t, r.Client().HDel(ctx, "asynq:{q}:t:t1", "msg"))
		tasks, _, _, err := r.Broker().Expired(ctx, "q", 0, 10)
		if err != nil || len(tasks) != 1 || tasks[0].Message == nil {
			t.Errorf("got %#v, error %v", tasks, err)
		}
	})
}

func TestRecover(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		r.Make(t, lock(redistest.NewTask(t, "q", "a"), "x"), redistest.NewTask(t, "q", "b"), redistest.NewTask(t, "q", "c"),
			redistest.NewTask(t, "q", "d"), redistest.NewTask(t, "q", "e"), redistest.NewTask(t, "q", "f"))
		r.Fetch(t, "q", 5)
		expire(t, r, time.Hour, "a", "b", "c")
		must(t, client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Score: 1, Member: "stray"}))
		must(t, client.LPush(ctx, "asynq:{q}:active", "stray"))
		must(t, client.Del(ctx, "asynq:{q}:marker"))

		items := func() []*rdb.Recovery {
			return []*rdb.Recovery{
				{ID: "b", Token: "f1"}, // back, as it is
				{ID: "a", Token: "f1", Message: message(t, "a"), Failed: true},                // back, to run first
				{ID: "c", Token: "f1", Message: message(t, "c"), Failed: true, Archive: true}, // into the archive
				{ID: "d", Token: "f1", Failed: true},                                          // its lease was extended
				{ID: "e", Token: "f1", Failed: true, Archive: true},                           // its lease was extended
				{ID: "stray"},
			}
		}
		recovery := items()
		b.Recover(ctx, "q", recovery)
		for i, want := range []rdb.Code{rdb.CodeOK, rdb.CodeOK, rdb.CodeOK, rdb.CodeLost, rdb.CodeLost, rdb.CodeGone} {
			if recovery[i].Err != nil || recovery[i].Code != want {
				t.Errorf("%s: code %d, want %d, error %v", recovery[i].ID, recovery[i].Code, want, recovery[i].Err)
			}
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:active = [e d]
			Q:archived = {c:now}
			Q:failed = 2
			Q:failed:today = 2 ttl 2160h0m0s
			Q:lease = {d:now+30s e:now+30s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [f b a]
			Q:processed = 2
			Q:processed:today = 2 ttl 2160h0m0s
			Q:t:a = {msg:test(payload retried=1 error=boom failed_at=now) pending_since:now settled:recovery state:pending unique_key:asynq:{q}:unique:test:x}
			Q:t:b = {msg:test(payload) pending_since:now settled:recovery state:pending}
			Q:t:c = {msg:test(payload retried=1 error=boom failed_at=now) settled:recovery state:archived}
			Q:t:d = {msg:test(payload) state:active token:f1}
			Q:t:e = {msg:test(payload) state:active token:f1}
			Q:t:f = {msg:test(payload) pending_since:now state:pending}
			Q:unique:test:x = a ttl 1m0s
		`)
		unchanged(t, r, "the same recovery again", func() {
			recovery = items()
			b.Recover(ctx, "q", recovery)
			for _, item := range recovery[:3] {
				if item.Err != nil || item.Code == rdb.CodeOK {
					t.Errorf("%s again: code %d, error %v", item.ID, item.Code, item.Err)
				}
			}
		})
		if code := settle(t, b, rdb.Settlement{ID: "a", Token: "f1", Outcome: rdb.Done}); code != rdb.CodeLost {
			t.Errorf("a late settlement: code %d", code)
		}
		if f := fetch(t, b, rdb.Fetch{N: 2}); !slices.Equal(ids(f), []string{"a", "b"}) {
			t.Errorf("next to run are %v", ids(f))
		}
	})
}

// What was fetched again since Expired told of it belongs to its new holder.
func TestRecoverLeavesNewAttempt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Requeue})
		r.Fetch(t, "q", 1)
		expire(t, r, time.Hour, "t1")
		unchanged(t, r, "the recovery", func() {
			for _, archive := range []bool{false, true} {
				item := &rdb.Recovery{ID: "t1", Token: "f1", Archive: archive}
				if b.Recover(ctx, "q", []*rdb.Recovery{item}); item.Err != nil || item.Code != rdb.CodeLost {
					t.Errorf("code %d, error %v", item.Code, item.Err)
				}
			}
		})
	})
}

func TestRecoverNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		unchanged(t, r, "a recovery of nothing", func() { r.Broker().Recover(context.Background(), "q", nil) })
	})
}

// Leases that have ended are listed by the megabyte too, and a call that takes tasks back carries no more either.
func TestExpiredAMegabyte(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := recordingBroker(t, r)
		made := makeLarge(t, r, 10, 2<<20, 10, 10)
		for i := range 2 {
			fetch(t, b, rdb.Fetch{N: 10, Token: fmt.Sprint("f", i)})
		}
		expire(t, r, time.Hour, made...)
		for i, want := range []struct {
			skip, looked int
			more         bool
		}{{0, 2, true}, {2, 2, false}, {1, 1, true}} {
			tasks, looked, next, err := b.Expired(ctx, "q", want.skip, 10)
			var got []string
			for _, task := range tasks {
				got = append(got, task.ID)
			}
			if err != nil || looked != want.looked || next == 0 != want.more || !slices.Equal(got, made[want.skip:want.skip+want.looked]) {
				t.Errorf("look %d: %v, looked at %d, next in %v, error %v; want %+v", i, got, looked, next, err, want)
			}
		}

		var items []*rdb.Recovery
		tasks, _, _, _ := b.Expired(ctx, "q", 0, 10)
		rest, _, _, _ := b.Expired(ctx, "q", 2, 10)
		for _, e := range append(tasks, rest...) {
			items = append(items, &rdb.Recovery{ID: e.ID, Token: e.Token, Message: e.Message, Failed: true})
		}
		b.Recover(ctx, "q", items)
		for _, item := range items {
			if item.Err != nil || item.Code != rdb.CodeOK {
				t.Errorf("%s: code %d, error %v", item.ID, item.Code, item.Err)
			}
		}
		if n := len(recorded.calls["recover"]); n != 3 {
			t.Errorf("%d calls of recover, want 3", n)
		}
	})
}
