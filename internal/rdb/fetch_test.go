package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestFetch(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 3)
		b := r.Broker()
		f := redistest.Fetch(t, b, rdb.Fetch{N: 2, Token: "token", Lease: 59*time.Second + time.Millisecond})
		if f.Err != nil || f.Code != script.CodeOK || !f.More || !slices.Equal(redistest.IDs(f), []string{"t1", "t2"}) || f.Dropped != nil {
			t.Errorf("got %+v", f)
		}
		if got := string(f.Tasks[0].Message); got != string(redistest.Encode(t, redistest.Message("q", "t1"))) {
			t.Errorf("the message is %q", got)
		}
		if off := time.Since(time.UnixMilli(f.Now)).Abs(); off > 10*time.Second {
			t.Errorf("the Redis clock is off by %v", off)
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:active = [t2 t1]
			Q:lease = {t1:now+1m0s t2:now+1m0s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t3]
			Q:t:t1 = {msg:test(payload) state:active token:token}
			Q:t:t2 = {msg:test(payload) state:active token:token}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
		`)
		f = redistest.Fetch(t, b, rdb.Fetch{N: 2})
		if f.Err != nil || f.Code != script.CodeOK || f.More || !slices.Equal(redistest.IDs(f), []string{"t3"}) {
			t.Errorf("the last one: %+v", f)
		}
		redistest.Unchanged(t, r, "a fetch from an empty queue", func() {
			if f = redistest.Fetch(t, b, rdb.Fetch{N: 2}); f.Err != nil || f.Code != script.CodeOK || f.More || f.Tasks != nil {
				t.Errorf("from an empty queue: %+v", f)
			}
		})
	})
}

func TestFetchLeavesMarkerWhereTasksAreLeft(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		for i, want := range []int64{1, 1, 0} {
			redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
			f := redistest.Fetch(t, b, rdb.Fetch{N: 1})
			if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != want || f.More != (want == 1) {
				t.Errorf("fetch %d: %d markers and more: %v, want %d", i, n, f.More, want)
			}
		}
	})
}

// Leases are whole seconds, so they may be longer than requested, never shorter.
func TestFetchLeaseIsNotShorter(t *testing.T) {
	r := redistest.Mini(t)
	r.Enqueue(t, "q", 3)
	for i, tt := range []struct {
		now   time.Time
		lease time.Duration
		want  int64
	}{
		{time.Unix(1_800_000_000, 0), 30 * time.Second, 1_800_000_030},
		{time.Unix(1_800_000_000, 1000), 30 * time.Second, 1_800_000_031},
		{time.Unix(1_800_000_000, 0), time.Millisecond, 1_800_000_001},
	} {
		r.SetTime(tt.now)
		id := redistest.IDs(redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 1, Lease: tt.lease}))[0]
		if score := r.Client().ZScore(context.Background(), "asynq:{q}:lease", id).Val(); int64(score) != tt.want {
			t.Errorf("%d: the lease ends at %v, want %d", i, score, tt.want)
		}
	}
}

func TestFetchTooLate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 1)
		b := r.Broker()
		redistest.Unchanged(t, r, "a late fetch", func() {
			f := redistest.Fetch(t, b, rdb.Fetch{N: 1, NotAfter: time.Now().Add(-time.Minute).UnixMilli()})
			if f.Err != nil || f.Code != script.CodeStale || f.Tasks != nil || f.Now == 0 {
				t.Errorf("a late fetch: %+v", f)
			}
		})
		f := redistest.Fetch(t, b, rdb.Fetch{N: 1, NotAfter: time.Now().Add(time.Minute).UnixMilli()})
		if f.Err != nil || f.Code != script.CodeOK || len(f.Tasks) != 1 {
			t.Errorf("a fetch in time: %+v", f)
		}
	})
}

func TestFetchFromPausedQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 1)
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{q}:paused", time.Now().Unix(), 0))
		redistest.Unchanged(t, r, "the fetch", func() {
			if f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 1}); f.Err != nil || f.Code != script.CodePaused || f.Tasks != nil {
				t.Errorf("got %+v", f)
			}
		})
	})
}

func TestFetchMaxActive(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 6)
		b := r.Broker()
		for i, step := range []struct {
			n, maxActive int
			tasks        int
			code         script.Code
			more         bool
		}{
			{1, 3, 1, script.CodeOK, true},
			{5, 3, 2, script.CodeCapped, false},
			{5, 3, 0, script.CodeCapped, false},
			{1, 3, 0, script.CodeCapped, false},
			{3, 5, 2, script.CodeCapped, false},
			// One task is left where two may be fetched: it is not the limit that keeps the third
			// away.
			{3, 7, 1, script.CodeOK, false},
			{3, 7, 0, script.CodeOK, false},
			{3, 6, 0, script.CodeCapped, false},
		} {
			f := redistest.Fetch(t, b, rdb.Fetch{N: step.n, MaxActive: step.maxActive})
			if f.Err != nil || f.Code != step.code || len(f.Tasks) != step.tasks || f.More != step.more {
				t.Errorf("step %d: %+v, want %+v", i, f, step)
			}
		}
	})
}

func TestFetchOfNothingTakesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 2)
		redistest.Must(t, r.Client().Persist(context.Background(), "asynq:{q}:marker"))
		redistest.Must(t, r.Client().Expire(context.Background(), "asynq:{q}:marker", time.Minute))
		redistest.Unchanged(t, r, "a fetch of none", func() {
			if f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 0}); f.Err != nil || f.Tasks != nil || f.Dropped != nil {
				t.Errorf("got %+v", f)
			}
		})
	})
}

func TestFetchTakesAtMost500(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 510)
		if f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 600}); f.Err != nil || len(f.Tasks) != 500 || !f.More {
			t.Errorf("fetched %d, more: %v, error %v", len(f.Tasks), f.More, f.Err)
		}
	})
}

func TestFetchDropsWhatIsNoPendingTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		scheduled := redistest.NewTask(t, "q", "scheduled")
		scheduled.ProcessAt = time.Now().Add(time.Hour).Unix()
		r.Make(t, scheduled, redistest.NewTask(t, "q", "good"))
		redistest.Must(t, client.Set(ctx, "asynq:{q}:t:string", "no task", 0))
		redistest.Must(t, client.LPush(ctx, "asynq:{q}:pending", "missing", "good", "scheduled", "string"))

		f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 10})
		if f.Err != nil || !slices.Equal(redistest.IDs(f), []string{"good"}) {
			t.Errorf("fetched %v, error %v", redistest.IDs(f), f.Err)
		}
		if diff := cmp.Diff([]string{"missing", "good", "scheduled", "string"}, f.Dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		redistest.Must(t, client.Del(ctx, "asynq:{q}:t:string"))
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:active = [good]
			Q:lease = {good:now+30s}
			Q:marker = [1] ttl 1m0s
			Q:scheduled = {scheduled:now+1h0m0s}
			Q:t:good = {msg:test(payload) state:active token:f}
			Q:t:scheduled = {msg:test(payload) state:scheduled}
		`)
	})
}

func TestFetchTaskWithoutMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		r.Enqueue(t, "q", 1)
		redistest.Must(t, r.Client().HDel(context.Background(), "asynq:{q}:t:t1", "msg"))
		f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 1})
		if f.Err != nil || len(f.Tasks) != 1 || len(f.Tasks[0].Message) != 0 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestReclaim(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 4)
		b := r.Broker()
		redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "kept"})
		redistest.Fetch(t, b, rdb.Fetch{N: 2, Token: "lost"})
		redistest.Must(t, r.Client().Del(context.Background(), "asynq:{q}:marker"))
		if n := redistest.Reclaim(t, b, "lost"); n != 2 {
			t.Errorf("put %d tasks back, want 2", n)
		}
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:active = [t1]
			Q:lease = {t1:now+30s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t4 t3 t2]
			Q:t:t1 = {msg:test(payload) state:active token:kept}
			Q:t:t2 = {msg:test(payload) pending_since:now state:pending}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
			Q:t:t4 = {msg:test(payload) pending_since:now state:pending}
		`)
		if f := redistest.Fetch(t, b, rdb.Fetch{N: 1}); !slices.Equal(redistest.IDs(f), []string{"t2"}) {
			t.Errorf("the next one to run is %v", redistest.IDs(f))
		}
		redistest.Unchanged(t, r, "a second reclaim", func() {
			if n := redistest.Reclaim(t, b, "lost"); n != 0 {
				t.Errorf("put %d tasks back again", n)
			}
		})
		if code := redistest.Settle(t, b, rdb.Settlement{ID: "t2", Token: "lost", Outcome: rdb.Done}); code != script.CodeLost {
			t.Errorf("a settlement after the reclaim: code %d", code)
		}
	})
}

// A reclaim scans a large lease set in several round trips.
func TestReclaimAmongManyLeases(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		made := r.Enqueue(t, "q", 1500)
		for i := range 3 {
			redistest.Fetch(t, b, rdb.Fetch{N: 500, Token: fmt.Sprint("f", i)})
		}
		if n := redistest.Reclaim(t, b, "f1"); n != 500 {
			t.Errorf("put %d tasks back, want 500", n)
		}
		pending := r.Client().LRange(context.Background(), "asynq:{q}:pending", 0, -1).Val()
		if want := made[500:1000]; !slices.Equal(slices.Sorted(slices.Values(pending)), slices.Sorted(slices.Values(want))) {
			t.Errorf("in pending: %v", pending)
		}
	})
}

func TestRoundTripReclaimsSettlesFetches(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 3)
		b := r.Broker()
		// Scripts that Redis does not have yet come later than the others of their round trip: here
		// it has them all.
		redistest.Reclaim(t, b, "none")
		redistest.Settle(t, b, rdb.Settlement{ID: "none", Outcome: rdb.Requeue})
		lost := redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "lost"})
		held := redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "held"})
		s := &rdb.Settlement{Queue: "q", ID: redistest.IDs(held)[0], Token: "held", Outcome: rdb.Requeue}
		trip := &rdb.RoundTrip{
			Reclaim: []*rdb.Reclaim{{Queue: "q", Token: "lost"}},
			Settle:  []*rdb.Settlement{s},
			Fetch: []*rdb.Fetch{
				{Queue: "q", N: 2, Token: "next", Lease: time.Minute},
				{Queue: "empty", N: 2, Token: "empty", Lease: time.Minute},
			},
		}
		if trip.Empty() || !(&rdb.RoundTrip{}).Empty() {
			t.Error("Empty is wrong")
		}
		b.RoundTrip(context.Background(), trip)
		want := []string{redistest.IDs(held)[0], redistest.IDs(lost)[0]}
		if got := redistest.IDs(trip.Fetch[0]); !slices.Equal(got, want) || trip.Fetch[1].Tasks != nil || s.Code != script.CodeOK {
			t.Errorf("fetched %v, want %v; from the empty queue %v; settled with code %d", got, want, trip.Fetch[1].Tasks, s.Code)
		}
	})
}

// A fetch returns how long its tasks waited, if requested, alone and together with a settlement.
func TestFetchTellsWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 6)
		for id, since := range map[string]any{
			"t1": time.Now().Add(-time.Hour).UnixNano(),
			"t2": time.Now().Add(time.Hour).UnixNano(), // by a clock that is fast
			"t3": "long ago", "t4": "inf", "t5": "nan",
		} {
			redistest.Must(t, r.Client().HSet(ctx, b.Keys("q").Task(id), "pending_since", since))
		}
		redistest.Must(t, r.Client().RPush(ctx, b.Keys("q").Pending(), "missing"))
		f := redistest.Fetch(t, b, rdb.Fetch{N: 6, Waits: true, Token: "token"})
		if f.Err != nil || !slices.Equal(redistest.IDs(f), []string{"t1", "t2", "t3", "t4", "t5"}) || !slices.Equal(f.Dropped, []string{"missing"}) {
			t.Fatalf("got %+v", f)
		}
		if off := f.Tasks[0].Wait - time.Hour; off.Abs() > 10*time.Second || f.Tasks[1].Wait != 0 {
			t.Errorf("waited %v and %v", f.Tasks[0].Wait, f.Tasks[1].Wait)
		}
		for _, task := range f.Tasks[2:] {
			if task.Wait >= 0 {
				t.Errorf("%s waited %v since no time", task.ID, task.Wait)
			}
		}
		trip := &rdb.RoundTrip{
			Settle: []*rdb.Settlement{{Queue: "q", ID: "t1", Token: "token", Outcome: rdb.Done}},
			Fetch:  []*rdb.Fetch{{Queue: "q", N: 2, Token: "other", Lease: time.Minute, Waits: true}},
		}
		b.RoundTrip(ctx, trip)
		if f = trip.Fetch[0]; f.Err != nil || !slices.Equal(redistest.IDs(f), []string{"t6"}) || f.Tasks[0].Wait < 0 || f.Tasks[0].Wait > time.Minute {
			t.Errorf("with a settlement: %+v", f)
		}
		r.Enqueue(t, "q", 1)
		if f = redistest.Fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || len(f.Tasks) != 1 || f.Tasks[0].Wait >= 0 {
			t.Errorf("unasked: %+v", f)
		}
	})
}

// makeLarge creates tasks t0, t1, … of queue q with payloads of the given sizes.
func makeLarge(t *testing.T, r *redistest.Redis, sizes ...int) []string {
	t.Helper()
	var tasks []*rdb.NewTask
	var made []string
	for i, size := range sizes {
		m := redistest.Message("q", fmt.Sprint("t", i))
		m.Payload = []byte(strings.Repeat("x", size))
		tasks = append(tasks, &rdb.NewTask{ID: m.ID, Queue: "q", Message: redistest.Encode(t, m)})
		made = append(made, m.ID)
	}
	r.Make(t, tasks...)
	return made
}

// A fetch returns messages up to a megabyte, which the last one may exceed, and at least one task.
// The others stay pending.
func TestFetchTakesAMegabyte(t *testing.T) {
	const mega = 1 << 20
	for name, tt := range map[string]struct {
		n     int
		sizes []int
		want  [][]string // of one fetch after the other
	}{
		"one that is larger": {10, []int{3 * mega, 10, 2 * mega, mega}, [][]string{{"t0"}, {"t1", "t2"}, {"t3"}, nil}},
		"several":            {10, []int{mega / 3, mega / 3, mega / 3, mega / 3, 10}, [][]string{{"t0", "t1", "t2"}, {"t3", "t4"}, nil}},
		"no more slots":      {2, []int{mega / 3, 2 * mega, 10, 10}, [][]string{{"t0", "t1"}, {"t2", "t3"}, nil}},
		"the last one":       {4, []int{10, 10, 10, 2 * mega}, [][]string{{"t0", "t1", "t2", "t3"}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, left := context.Background(), len(tt.sizes)
				makeLarge(t, r, tt.sizes...)
				for i, want := range tt.want {
					redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
					f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: tt.n, Token: fmt.Sprint("f", i)}) // its first
					left -= len(want)
					if f.Err != nil || f.Code != script.CodeOK || !slices.Equal(redistest.IDs(f), want) || f.More != (left > 0) {
						t.Errorf("fetch %d: %v, want %v; more: %v, code %d, error %v", i, redistest.IDs(f), want, f.More, f.Code, f.Err)
					}
					if n := r.Client().LLen(ctx, "asynq:{q}:pending").Val(); n != int64(left) {
						t.Errorf("fetch %d: %d tasks are in pending, want %d", i, n, left)
					}
					if n := r.Client().Exists(ctx, "asynq:{q}:marker").Val(); n == 1 != (left > 0) {
						t.Errorf("fetch %d leaves %d markers and %d tasks", i, n, left)
					}
				}
			})
		})
	}
}

// A fetch drops dangling IDs only among the entries that it reached.
func TestFetchTakesAMegabyteAmongWhatIsNoTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		made := makeLarge(t, r, 10, 2<<20, 10)
		redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:pending"))
		redistest.Must(t, r.Client().LPush(ctx, "asynq:{q}:pending", "bad1", made[0], "bad2", made[1], "bad3", made[1], made[2], "bad4"))
		f := redistest.Fetch(t, b, rdb.Fetch{N: 20})
		if f.Err != nil || !f.More || !slices.Equal(redistest.IDs(f), made[:2]) || !slices.Equal(f.Dropped, []string{"bad1", "bad2"}) {
			t.Errorf("fetched %v, dropped %v, more: %v, error %v", redistest.IDs(f), f.Dropped, f.More, f.Err)
		}
		f = redistest.Fetch(t, b, rdb.Fetch{N: 20, Token: "f2"})
		if f.Err != nil || f.More || !slices.Equal(redistest.IDs(f), made[2:]) || !slices.Equal(f.Dropped, []string{"bad3", made[1], "bad4"}) {
			t.Errorf("then fetched %v, dropped %v, more: %v, error %v", redistest.IDs(f), f.Dropped, f.More, f.Err)
		}
	})
}

// A fetch that stops at its byte limit reports more available tasks, even below MaxActive: the
// caller fetches from the queue again without a delay.
func TestFetchTakesAMegabyteBelowTheCap(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		makeLarge(t, r, 2<<20, 2<<20, 2<<20, 10)
		for i, want := range []struct {
			code  script.Code
			tasks int
			more  bool
		}{{script.CodeOK, 1, true}, {script.CodeOK, 1, true}, {script.CodeCapped, 1, false}, {script.CodeCapped, 0, false}} {
			f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 10, MaxActive: 3, Token: fmt.Sprint("f", i)})
			if f.Err != nil || f.Code != want.code || len(f.Tasks) != want.tasks || f.More != want.more {
				t.Errorf("fetch %d: %v, code %d, more: %v, error %v; want %+v", i, redistest.IDs(f), f.Code, f.More, f.Err, want)
			}
		}
	})
}

// A fetch that must return its tasks returns no others.
func TestFetchOfAMegabyteThatIsRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		made := makeLarge(t, r, 10, 2<<20, 10, 10)
		redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:lease", "of another type", 0))
		f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 10})
		if f.Err == nil || f.Tasks != nil {
			t.Errorf("fetched %v, error %v", redistest.IDs(f), f.Err)
		}
		got := r.Client().LRange(ctx, "asynq:{q}:pending", 0, -1).Val()
		if slices.Reverse(got); !slices.Equal(got, made) {
			t.Errorf("in pending are %v, want %v", got, made)
		}
	})
}

// TestFetchIsNotRepeated loses the reply to a fetch: go-redis must not send it again, alone or in a
// pipeline with calls that it may repeat.
func TestFetchIsNotRepeated(t *testing.T) {
	for name, settlements := range map[string]int{"alone": 0, "with settlements": 2} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				redistest.LoadScripts(ctx, rdb.New(r.Client(), "other"))
				r.Enqueue(t, "q", 5)
				held := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: settlements, Token: "held"})

				p := redistest.StartProxy(t, r.Addr)
				client := redis.NewClient(&redis.Options{Addr: p.Addr(), DB: r.DB, MinRetryBackoff: time.Millisecond})
				t.Cleanup(func() { _ = client.Close() })
				p.SwallowReplies(1, "evalsha", "lost")
				f := &rdb.Fetch{Queue: "q", N: 1, Token: "lost", Lease: redistest.Lease}
				trip := &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}}
				for _, task := range held.Tasks {
					trip.Settle = append(trip.Settle, &rdb.Settlement{
						Queue: "q", ID: task.ID, Token: "held", Outcome: rdb.Archive,
					})
				}
				rdb.New(client, "").RoundTrip(ctx, trip)

				if f.Err == nil || script.Refused(f.Err) {
					t.Errorf("the fetch ends with %v", f.Err)
				}
				if n := r.Client().LLen(ctx, r.Broker().Keys("q").Active()).Val(); n != 1 {
					t.Errorf("%d tasks are active, want the one that the fetch took", n)
				}
				if n := redistest.Reclaim(t, rdb.New(client, ""), "lost"); n != 1 {
					t.Errorf("%d tasks of the fetch are put back", n)
				}
			})
		})
	}
}

// forwardInOrder forwards the due tasks of queue q and keeps their order.
func forwardInOrder(t *testing.T, b *rdb.Broker) rdb.Due {
	t.Helper()
	due := b.Forward(context.Background(), []string{"q"}, map[string]bool{"q": true})[0]
	if due.Err != nil {
		t.Fatal(due.Err)
	}
	return due
}

func TestFetchInOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		take := func(want script.Code, tasks ...string) {
			t.Helper()
			f := redistest.Fetch(t, b, rdb.Fetch{N: 5, MaxActive: rdb.InOrder})
			if f.Err != nil || f.Code != want || !slices.Equal(redistest.IDs(f), tasks) {
				t.Errorf("got %q, code %d, error %v; want %q, code %d", redistest.IDs(f), f.Code, f.Err, tasks, want)
			}
		}
		take(script.CodeCapped, "t1")
		take(script.CodeCapped)
		redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: "f", Outcome: rdb.Retry, Delay: time.Hour})
		redistest.Unchanged(t, r, "a fetch while a task waits for its retry", func() { take(script.CodeCapped) })
		if due := forwardInOrder(t, b); due.Moved != 0 {
			t.Errorf("too early: %+v", due)
		}
		redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: 1, Member: "t1"}))
		if due := forwardInOrder(t, b); due.Moved != 1 {
			t.Errorf("when it is due: %+v", due)
		}
		take(script.CodeCapped, "t1")

		// The next task starts in the round trip that settles the previous one.
		trip := &rdb.RoundTrip{
			Settle: []*rdb.Settlement{{Queue: "q", ID: "t1", Token: "f", Outcome: rdb.Done}},
			Fetch:  []*rdb.Fetch{{Queue: "q", N: 5, Token: "f", Lease: redistest.Lease, MaxActive: rdb.InOrder}},
		}
		b.RoundTrip(ctx, trip)
		if got := redistest.IDs(trip.Fetch[0]); !slices.Equal(got, []string{"t2"}) {
			t.Errorf("took %q, want t2", got)
		}
		trip.Settle = []*rdb.Settlement{{Queue: "q", ID: "t2", Token: "f", Outcome: rdb.Defer}}
		trip.Fetch[0] = &rdb.Fetch{Queue: "q", N: 5, Token: "f", Lease: redistest.Lease, MaxActive: rdb.InOrder}
		b.RoundTrip(ctx, trip)
		if f := trip.Fetch[0]; f.Code != script.CodeCapped || f.Tasks != nil {
			t.Errorf("overtook a task that failed in the same round trip: %+v", f)
		}
	})
}

func TestForwardInOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 4)
		r.Fetch(t, "q", 3)
		for i, id := range []string{"t1", "t2", "t3"} {
			redistest.Settle(t, b, rdb.Settlement{ID: id, Token: "f1", Outcome: rdb.Defer})
			redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:retry", redis.Z{Score: float64(10 - i), Member: id}))
		}
		delayed(t, r, "scheduled", -time.Hour)
		forwardInOrder(t, b)
		f := redistest.Fetch(t, b, rdb.Fetch{N: 9})
		if got, want := redistest.IDs(f), []string{"t3", "t2", "t1", "t4", "scheduled"}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
	})
}

// Large messages do not pass through Lua once a queue has had one. The tasks and their order are
// the same.
func TestFetchLargeMessages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := redistest.RecordingBroker(t, r)
		sizes := []int{10, 100_000, 10, 1 << 20, 70_000, 10, 60_000, 10, 10}
		made := makeLarge(t, r, sizes...)
		b.RoundTrip(context.Background(), &rdb.RoundTrip{Fetch: []*rdb.Fetch{{Queue: "empty", N: 1, Token: "none"}}}) // connects, and loads the script
		for i, step := range []struct{ n, trips int }{{2, 1}, {5, 2}, {1, 1}, {1, 1}} {
			before := recorded.Trips
			f := redistest.Fetch(t, b, rdb.Fetch{N: step.n, Token: fmt.Sprint("f", i), Waits: true})
			if trips := recorded.Trips - before; f.Err != nil || len(f.Tasks) != step.n || trips != step.trips {
				t.Fatalf("fetch %d: %d tasks in %d trips, error %v; want %+v", i, len(f.Tasks), trips, f.Err, step)
			}
			for _, task := range f.Tasks {
				m, err := wire.DecodeTaskMessage(task.Message)
				if err != nil || m.ID != made[0] || task.ID != made[0] || len(m.Payload) != sizes[0] || task.Wait < 0 {
					t.Fatalf("fetch %d: got %+v with %d bytes, wait %v, error %v; want %s with %d", i,
						m, len(task.Message), task.Wait, err, made[0], sizes[0])
				}
				made, sizes = made[1:], sizes[1:]
			}
		}
	})
}

// Messages that are left to the caller count an eighth of their size.
func TestFetchBoundOfLargeMessages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		makeLarge(t, r, slices.Repeat([]int{1 << 20}, 12)...)
		b := r.Broker()
		for i, want := range []int{1, 8, 3} {
			if f := redistest.Fetch(t, b, rdb.Fetch{N: 20, Token: fmt.Sprint("f", i)}); f.Err != nil || len(f.Tasks) != want {
				t.Errorf("fetch %d: %d tasks, error %v; want %d", i, len(f.Tasks), f.Err, want)
			}
		}
	})
}

// If a large message cannot be read, the outcome of the fetch is unknown.
func TestFetchWithUnreadMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		makeLarge(t, r, 100_000, 10, 100_000)
		p := redistest.StartProxy(t, r.Addr)
		client := redis.NewClient(&redis.Options{Addr: p.Addr(), DB: r.DB, MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		b := rdb.New(client, "")
		redistest.Fetch(t, b, rdb.Fetch{N: 1, Token: "first"})
		p.LoseCommands(1, "hmget")
		f := redistest.Fetch(t, b, rdb.Fetch{N: 2, Token: "second"})
		if f.Err == nil || script.Refused(f.Err) || f.Tasks != nil {
			t.Errorf("fetched %v, error %v", redistest.IDs(f), f.Err)
		}
		if n := redistest.Reclaim(t, b, "second"); n != 2 {
			t.Errorf("reclaimed %d tasks", n)
		}
		if f := redistest.Fetch(t, b, rdb.Fetch{N: 2, Token: "third"}); f.Err != nil || !slices.Equal(redistest.IDs(f), []string{"t1", "t2"}) {
			t.Errorf("fetched %v, error %v", redistest.IDs(f), f.Err)
		}
	})
}

func TestAMarkerTellsOfRoom(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 6)
		marked := func(when string, want bool) {
			t.Helper()
			n, err := r.Client().Del(ctx, "asynq:{q}:marker").Result()
			if err != nil || n > 0 != want {
				t.Errorf("%s: the marker is there: %v, error %v; want %v", when, n > 0, err, want)
			}
		}
		marked("after enqueue", true)
		redistest.Fetch(t, b, rdb.Fetch{N: 1, MaxActive: 2, Mark: true})
		marked("one more may be active", true)
		redistest.Fetch(t, b, rdb.Fetch{N: 1, MaxActive: 2, Mark: true})
		marked("no more may be", false)

		settle := func(id, token string, outcome rdb.Outcome, most int) {
			t.Helper()
			redistest.Settle(t, b, rdb.Settlement{ID: id, Token: token, Outcome: outcome, MaxActive: most, Delay: time.Hour})
		}
		settle("t1", "another", rdb.Done, 2)
		settle("t1", "another", rdb.Archive, 2)
		marked("after rejected settlements", false)
		settle("t1", "f", rdb.Done, 0)
		marked("after a settlement in a queue without a limit", false)
		settle("t2", "f", rdb.Done, 2)
		marked("after a settlement", true)
		for i, most := range []int{2, rdb.InOrder} {
			redistest.Fetch(t, b, rdb.Fetch{N: 1})
			marked("after a fetch without a limit", true)
			settle(fmt.Sprint("t", i+3), "f", rdb.Defer, most)
			marked("after a retry", true)
		}
		f := redistest.Fetch(t, b, rdb.Fetch{N: 9})
		for i, outcome := range []rdb.Outcome{rdb.Done, rdb.Defer} {
			settle(redistest.IDs(f)[i], "f", outcome, 2)
			marked("no task is pending", false)
		}
	})
}
