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
	"github.com/asynq-go/asynq/internal/script"
)

func TestExtend(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		f := r.Fetch(t, "q", 2)
		held := []rdb.Held{{ID: "t1", Token: f.Token}, {ID: "t2", Token: "another"}, {ID: "t3", Token: f.Token}, {ID: "gone", Token: f.Token}}
		b.Extend(ctx, "q", 90*time.Second, held)
		for i, want := range []script.Code{script.CodeOK, script.CodeLost, script.CodeLost, script.CodeGone} {
			if held[i].Err != nil || held[i].Code != want {
				t.Errorf("%s: code %d, want %d, error %v", held[i].ID, held[i].Code, want, held[i].Err)
			}
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:active = [t2 t1]
			Q:lease = {t1:now+1m30s t2:now+30s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t3]
			Q:t:t1 = {msg:test(payload) state:active token:f1}
			Q:t:t2 = {msg:test(payload) state:active token:f1}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
		`)
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Retry, Delay: time.Minute})
		redistest.Unchanged(t, r, "extending what is settled", func() {
			late := []rdb.Held{{ID: "t1", Token: f.Token}}
			if b.Extend(ctx, "q", time.Hour, late); late[0].Code != script.CodeLost {
				t.Errorf("a settled task: code %d", late[0].Code)
			}
		})
	})
}

func TestExtendIsNotShorter(t *testing.T) {
	r := redistest.Mini(t)
	r.Enqueue(t, "q", 1)
	held := []rdb.Held{{ID: "t1", Token: r.Fetch(t, "q", 1).Token}}
	for micros, want := range map[int64]float64{0: 60, 1: 61, 999_999: 61} {
		r.SetTime(time.Unix(1_800_000_000, micros*1000))
		r.Broker().Extend(context.Background(), "q", time.Minute, held)
		if got := r.Client().ZScore(context.Background(), "asynq:{q}:lease", "t1").Val() - 1_800_000_000; held[0].Err != nil || got != want {
			t.Errorf("%d µs: the lease ends at second %v, want %v; error %v", micros, got, want, held[0].Err)
		}
	}
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
			if h.Err != nil || h.Code != script.CodeOK {
				t.Fatalf("%s: code %d, error %v", h.ID, h.Code, h.Err)
			}
		}
		later := fmt.Sprint(time.Now().Add(time.Minute).Unix())
		if n := r.Client().ZCount(ctx, "asynq:{q}:lease", later, "+inf").Val(); n != int64(len(made)) {
			t.Errorf("%d leases were extended, want %d", n, len(made))
		}
	})
}

func TestExpired(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		tasks, scanned, next, err := b.Expired(ctx, "q", 0, 10)
		if tasks != nil || scanned != 0 || next >= 0 || err != nil {
			t.Errorf("without leases: %v, scanned %d, next in %v, error %v", tasks, scanned, next, err)
		}
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 4)
		redistest.ExpireLeases(t, r, time.Hour, "t1", "t2")
		redistest.Must(t, client.HDel(ctx, "asynq:{q}:t:t2", "token")) // as if another library held it
		redistest.ExpireLeases(t, r, 10*time.Second, "t3")
		redistest.Must(t, client.HDel(ctx, "asynq:{q}:t:t3", "token"))
		redistest.Must(t, client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Score: 1, Member: "gone"}, redis.Z{Score: 2, Member: "string"}))
		redistest.Must(t, client.Set(ctx, "asynq:{q}:t:string", "no task", 0))

		tasks, scanned, next, err = b.Expired(ctx, "q", 0, 10)
		if scanned != 5 || next < 20*time.Second || next > 31*time.Second || err != nil {
			t.Errorf("scanned %d, next in %v, error %v", scanned, next, err)
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
		tasks, scanned, _, err = b.Expired(ctx, "q", 2, 1)
		if len(tasks) != 1 || tasks[0].ID != "t1" || scanned != 1 || err != nil {
			t.Errorf("one after two: %v, scanned %d, error %v", tasks, scanned, err)
		}
	})
}

// An active task without a message is distinguished from one that does not exist.
func TestExpiredTaskWithoutMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		redistest.ExpireLeases(t, r, time.Hour, "t1")
		redistest.Must(t, r.Client().HDel(ctx, "asynq:{q}:t:t1", "msg"))
		tasks, _, _, err := r.Broker().Expired(ctx, "q", 0, 10)
		if err != nil || len(tasks) != 1 || tasks[0].Message == nil {
			t.Errorf("got %#v, error %v", tasks, err)
		}
	})
}

func TestRecover(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "a"), "x"), redistest.NewTask(t, "q", "b"), redistest.NewTask(t, "q", "c"),
			redistest.NewTask(t, "q", "d"), redistest.NewTask(t, "q", "e"), redistest.NewTask(t, "q", "f"))
		r.Fetch(t, "q", 5)
		redistest.ExpireLeases(t, r, time.Hour, "a", "b", "c")
		redistest.Must(t, client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Score: 1, Member: "stray"}))
		redistest.Must(t, client.LPush(ctx, "asynq:{q}:active", "stray"))
		redistest.Must(t, client.Del(ctx, "asynq:{q}:marker"))

		items := func() []*rdb.Settlement {
			items := []*rdb.Settlement{
				{ID: "b", Token: "f1", Outcome: rdb.Requeue},                                                         // back, as it is
				{ID: "a", Token: "f1", Outcome: rdb.Requeue, Message: redistest.FailedMessage(t, "a"), Failed: true}, // back, to run first
				{ID: "c", Token: "f1", Outcome: rdb.Archive, Message: redistest.FailedMessage(t, "c")},               // into the archive
				{ID: "d", Token: "f1", Outcome: rdb.Requeue, Failed: true},                                           // its lease was extended
				{ID: "e", Token: "f1", Outcome: rdb.Archive},                                                         // its lease was extended
				{ID: "stray", Outcome: rdb.Requeue},
			}
			for _, item := range items {
				item.Queue = "q"
			}
			return items
		}
		recovery := items()
		b.Recover(ctx, recovery)
		for i, want := range []script.Code{script.CodeOK, script.CodeOK, script.CodeOK, script.CodeLost, script.CodeLost, script.CodeGone} {
			if recovery[i].Err != nil || recovery[i].Code != want {
				t.Errorf("%s: code %d, want %d, error %v", recovery[i].ID, recovery[i].Code, want, recovery[i].Err)
			}
		}
		redistest.WantDump(t, r, `
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
		redistest.Unchanged(t, r, "the same recovery again", func() {
			recovery = items()
			b.Recover(ctx, recovery)
			for _, item := range recovery[:3] {
				if item.Err != nil || item.Code == script.CodeOK {
					t.Errorf("%s again: code %d, error %v", item.ID, item.Code, item.Err)
				}
			}
		})
		if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: "f1", Outcome: rdb.Done}); code != script.CodeLost {
			t.Errorf("a late settlement: code %d", code)
		}
		if f := redistest.Fetch(t, b, rdb.Fetch{N: 2}); !slices.Equal(redistest.IDs(f), []string{"a", "b"}) {
			t.Errorf("next to run are %v", redistest.IDs(f))
		}
	})
}

// A task that is fetched again after Expired returned it belongs to its new holder.
func TestRecoverLeavesNewAttempt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 1)
		r.Fetch(t, "q", 1)
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: "f1", Outcome: rdb.Requeue})
		r.Fetch(t, "q", 1)
		redistest.ExpireLeases(t, r, time.Hour, "t1")
		redistest.Unchanged(t, r, "the recovery", func() {
			for _, outcome := range []rdb.Outcome{rdb.Requeue, rdb.Archive} {
				item := &rdb.Settlement{Queue: "q", ID: "t1", Token: "f1", Outcome: outcome}
				if b.Recover(ctx, []*rdb.Settlement{item}); item.Err != nil || item.Code != script.CodeLost {
					t.Errorf("code %d, error %v", item.Code, item.Err)
				}
			}
		})
	})
}

func TestRecoverNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		redistest.Unchanged(t, r, "a recovery of nothing", func() { r.Broker().Recover(context.Background(), nil) })
	})
}

// Expired also limits its messages to a megabyte, and so does a call that recovers tasks.
func TestExpiredAMegabyte(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		made := makeLarge(t, r, 10, 2<<20, 10, 10)
		for i := range 2 {
			redistest.Fetch(t, b, rdb.Fetch{N: 10, Token: fmt.Sprint("f", i)})
		}
		redistest.ExpireLeases(t, r, time.Hour, made...)
		for i, want := range []struct {
			skip, scanned int
			more          bool
		}{{0, 2, true}, {2, 2, false}, {1, 1, true}} {
			tasks, scanned, next, err := b.Expired(ctx, "q", want.skip, 10)
			var got []string
			for _, task := range tasks {
				got = append(got, task.ID)
			}
			if err != nil || scanned != want.scanned || next == 0 != want.more || !slices.Equal(got, made[want.skip:want.skip+want.scanned]) {
				t.Errorf("scan %d: %v, scanned %d, next in %v, error %v; want %+v", i, got, scanned, next, err, want)
			}
		}

		var items []*rdb.Settlement
		tasks, _, _, _ := b.Expired(ctx, "q", 0, 10)
		rest, _, _, _ := b.Expired(ctx, "q", 2, 10)
		for _, e := range append(tasks, rest...) {
			items = append(items, &rdb.Settlement{
				Queue: "q", ID: e.ID, Token: e.Token, Outcome: rdb.Requeue, Message: e.Message, Failed: true,
			})
		}
		b.Recover(ctx, items)
		for _, item := range items {
			if item.Err != nil || item.Code != script.CodeOK {
				t.Errorf("%s: code %d, error %v", item.ID, item.Code, item.Err)
			}
		}
		if n := len(recorded.Calls["settle"]); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}
