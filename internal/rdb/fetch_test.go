package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestFetch(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 3)
		b := r.Broker()
		f := fetch(t, b, rdb.Fetch{N: 2, Token: "token", Lease: 59*time.Second + time.Millisecond})
		if f.Err != nil || f.Code != rdb.CodeOK || !f.More || !slices.Equal(ids(f), []string{"t1", "t2"}) || f.Dropped != nil {
			t.Errorf("got %+v", f)
		}
		if got := string(f.Tasks[0].Message); got != string(redistest.Encode(t, redistest.Message("q", "t1"))) {
			t.Errorf("the message is %q", got)
		}
		if off := time.Since(time.UnixMilli(f.Now)).Abs(); off > 10*time.Second {
			t.Errorf("the Redis clock is off by %v", off)
		}
		wantDump(t, r, `
			asynq:queues = {q}
			Q:active = [t2 t1]
			Q:lease = {t1:now+1m0s t2:now+1m0s}
			Q:marker = [1] ttl 1m0s
			Q:pending = [t3]
			Q:t:t1 = {msg:test(payload) state:active token:token}
			Q:t:t2 = {msg:test(payload) state:active token:token}
			Q:t:t3 = {msg:test(payload) pending_since:now state:pending}
		`)
		f = fetch(t, b, rdb.Fetch{N: 2})
		if f.Err != nil || f.Code != rdb.CodeOK || f.More || !slices.Equal(ids(f), []string{"t3"}) {
			t.Errorf("the last one: %+v", f)
		}
		unchanged(t, r, "a fetch from an empty queue", func() {
			if f = fetch(t, b, rdb.Fetch{N: 2}); f.Err != nil || f.Code != rdb.CodeOK || f.More || f.Tasks != nil {
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
			must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
			f := fetch(t, b, rdb.Fetch{N: 1})
			if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != want || f.More != (want == 1) {
				t.Errorf("fetch %d: %d markers and more: %v, want %d", i, n, f.More, want)
			}
		}
	})
}

// The lease is given in whole seconds, so it may be longer than asked for, never shorter.
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
		id := ids(fetch(t, r.Broker(), rdb.Fetch{N: 1, Lease: tt.lease}))[0]
		if score := r.Client().ZScore(context.Background(), "asynq:{q}:lease", id).Val(); int64(score) != tt.want {
			t.Errorf("%d: the lease ends at %v, want %d", i, score, tt.want)
		}
	}
}

func TestFetchTooLate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 1)
		b := r.Broker()
		unchanged(t, r, "a late fetch", func() {
			f := fetch(t, b, rdb.Fetch{N: 1, NotAfter: time.Now().Add(-time.Minute).UnixMilli()})
			if f.Err != nil || f.Code != rdb.CodeStale || f.Tasks != nil || f.Now == 0 {
				t.Errorf("a late fetch: %+v", f)
			}
		})
		f := fetch(t, b, rdb.Fetch{N: 1, NotAfter: time.Now().Add(time.Minute).UnixMilli()})
		if f.Err != nil || f.Code != rdb.CodeOK || len(f.Tasks) != 1 {
			t.Errorf("a fetch in time: %+v", f)
		}
	})
}

func TestFetchFromPausedQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 1)
		must(t, r.Client().Set(context.Background(), "asynq:{q}:paused", time.Now().Unix(), 0))
		unchanged(t, r, "the fetch", func() {
			if f := fetch(t, r.Broker(), rdb.Fetch{N: 1}); f.Err != nil || f.Code != rdb.CodePaused || f.Tasks != nil {
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
			code         rdb.Code
			more         bool
		}{
			{1, 3, 1, rdb.CodeOK, true},
			{5, 3, 2, rdb.CodeCapped, false},
			{5, 3, 0, rdb.CodeCapped, false},
			{1, 3, 0, rdb.CodeCapped, false},
			{3, 5, 2, rdb.CodeCapped, false},
			// One task is left where two may be fetched: it is not the cap that keeps the third away.
			{3, 7, 1, rdb.CodeOK, false},
			{3, 7, 0, rdb.CodeOK, false},
			{3, 6, 0, rdb.CodeCapped, false},
		} {
			f := fetch(t, b, rdb.Fetch{N: step.n, MaxActive: step.maxActive})
			if f.Err != nil || f.Code != step.code || len(f.Tasks) != step.tasks || f.More != step.more {
				t.Errorf("step %d: %+v, want %+v", i, f, step)
			}
		}
	})
}

func TestFetchOfNothingTakesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 2)
		must(t, r.Client().Persist(context.Background(), "asynq:{q}:marker"))
		must(t, r.Client().Expire(context.Background(), "asynq:{q}:marker", time.Minute))
		unchanged(t, r, "a fetch of none", func() {
			if f := fetch(t, r.Broker(), rdb.Fetch{N: 0}); f.Err != nil || f.Tasks != nil || f.Dropped != nil {
				t.Errorf("got %+v", f)
			}
		})
	})
}

func TestFetchTakesAtMost500(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 510)
		if f := fetch(t, r.Broker(), rdb.Fetch{N: 600}); f.Err != nil || len(f.Tasks) != 500 || !f.More {
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
		must(t, client.Set(ctx, "asynq:{q}:t:string", "no task", 0))
		must(t, client.LPush(ctx, "asynq:{q}:pending", "missing", "good", "scheduled", "string"))

		f := fetch(t, r.Broker(), rdb.Fetch{N: 10})
		if f.Err != nil || !slices.Equal(ids(f), []string{"good"}) {
			t.Errorf("fetched %v, error %v", ids(f), f.Err)
		}
		if diff := cmp.Diff([]string{"missing", "good", "scheduled", "string"}, f.Dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		must(t, client.Del(ctx, "asynq:{q}:t:string"))
		wantDump(t, r, `
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
		must(t, r.Client().HDel(context.Background(), "asynq:{q}:t:t1", "msg"))
		f := fetch(t, r.Broker(), rdb.Fetch{N: 1})
		if f.Err != nil || len(f.Tasks) != 1 || len(f.Tasks[0].Message) != 0 {
			t.Errorf("got %+v", f)
		}
	})
}

func TestUndo(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 4)
		b := r.Broker()
		fetch(t, b, rdb.Fetch{N: 1, Token: "kept"})
		fetch(t, b, rdb.Fetch{N: 2, Token: "lost"})
		must(t, r.Client().Del(context.Background(), "asynq:{q}:marker"))
		if n := undo(t, b, "lost"); n != 2 {
			t.Errorf("put %d tasks back, want 2", n)
		}
		wantDump(t, r, `
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
		if f := fetch(t, b, rdb.Fetch{N: 1}); !slices.Equal(ids(f), []string{"t2"}) {
			t.Errorf("the next one to run is %v", ids(f))
		}
		unchanged(t, r, "an undo again", func() {
			if n := undo(t, b, "lost"); n != 0 {
				t.Errorf("put %d tasks back again", n)
			}
		})
		if code := settle(t, b, rdb.Settlement{ID: "t2", Token: "lost", Outcome: rdb.Done}); code != rdb.CodeLost {
			t.Errorf("a settlement after the undo: code %d", code)
		}
	})
}

// A lease set of many entries is looked through in several turns.
func TestUndoAmongManyLeases(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		made := r.Enqueue(t, "q", 1500)
		for i := range 3 {
			fetch(t, b, rdb.Fetch{N: 500, Token: fmt.Sprint("f", i)})
		}
		if n := undo(t, b, "f1"); n != 500 {
			t.Errorf("put %d tasks back, want 500", n)
		}
		pending := r.Client().LRange(context.Background(), "asynq:{q}:pending", 0, -1).Val()
		if want := made[500:1000]; !slices.Equal(slices.Sorted(slices.Values(pending)), slices.Sorted(slices.Values(want))) {
			t.Errorf("in pending: %v", pending)
		}
	})
}

func TestTurnUndoesSettlesAndFetchesInThisOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 3)
		b := r.Broker()
		// Scripts that Redis does not have yet come later than the others of their turn: here it has them all.
		undo(t, b, "none")
		settle(t, b, rdb.Settlement{ID: "none", Outcome: rdb.Requeue})
		lost := fetch(t, b, rdb.Fetch{N: 1, Token: "lost"})
		held := fetch(t, b, rdb.Fetch{N: 1, Token: "held"})
		s := &rdb.Settlement{Queue: "q", ID: ids(held)[0], Token: "held", Outcome: rdb.Requeue}
		turn := &rdb.Turn{
			Undo:   []*rdb.Undo{{Queue: "q", Token: "lost"}},
			Settle: []*rdb.Settlement{s},
			Fetch: []*rdb.Fetch{
				{Queue: "q", N: 2, Token: "next", Lease: time.Minute},
				{Queue: "empty", N: 2, Token: "empty", Lease: time.Minute},
			},
		}
		if turn.Empty() || !(&rdb.Turn{}).Empty() {
			t.Error("Empty is wrong")
		}
		b.Turn(context.Background(), turn)
		want := []string{ids(held)[0], ids(lost)[0]}
		if got := ids(turn.Fetch[0]); !slices.Equal(got, want) || turn.Fetch[1].Tasks != nil || s.Code != rdb.CodeOK {
			t.Errorf("fetched %v, want %v; from the empty queue %v; settled with code %d", got, want, turn.Fetch[1].Tasks, s.Code)
		}
	})
}

// A fetch tells how long its tasks waited, if it is to, alone and together with a settlement.
func TestFetchTellsWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 6)
		for id, since := range map[string]any{
			"t1": time.Now().Add(-time.Hour).UnixNano(),
			"t2": time.Now().Add(time.Hour).UnixNano(), // by a clock that is fast
			"t3": "long ago", "t4": "inf", "t5": "nan",
		} {
			must(t, r.Client().HSet(ctx, b.Keys("q").Task(id), "pending_since", since))
		}
		must(t, r.Client().RPush(ctx, b.Keys("q").Pending(), "missing"))
		f := fetch(t, b, rdb.Fetch{N: 6, Waits: true, Token: "token"})
		if f.Err != nil || !slices.Equal(ids(f), []string{"t1", "t2", "t3", "t4", "t5"}) || !slices.Equal(f.Dropped, []string{"missing"}) {
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
		turn := &rdb.Turn{
			Settle: []*rdb.Settlement{{Queue: "q", ID: "t1", Token: "token", Outcome: rdb.Done}},
			Fetch:  []*rdb.Fetch{{Queue: "q", N: 2, Token: "other", Lease: time.Minute, Waits: true}},
		}
		b.Turn(ctx, turn)
		if f = turn.Fetch[0]; f.Err != nil || !slices.Equal(ids(f), []string{"t6"}) || f.Tasks[0].Wait < 0 || f.Tasks[0].Wait > time.Minute {
			t.Errorf("with a settlement: %+v", f)
		}
		r.Enqueue(t, "q", 1)
		if f = fetch(t, b, rdb.Fetch{N: 1}); f.Err != nil || len(f.Tasks) != 1 || f.Tasks[0].Wait != 0 {
			t.Errorf("unasked: %+v", f)
		}
	})
}
