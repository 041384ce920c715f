package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// makeLarge makes tasks of queue q with payloads of so many bytes: t0, t1 and so on.
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

// A fetch takes a megabyte of messages and what the last one goes beyond, but always one task; the others stay where they are.
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
				ctx, b, left := context.Background(), r.Broker(), len(tt.sizes)
				makeLarge(t, r, tt.sizes...)
				for i, want := range tt.want {
					must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
					f := fetch(t, b, rdb.Fetch{N: tt.n, Token: fmt.Sprint("f", i)})
					left -= len(want)
					if f.Err != nil || f.Code != rdb.CodeOK || !slices.Equal(ids(f), want) || f.More != (left > 0) {
						t.Errorf("fetch %d: %v, want %v; more: %v, code %d, error %v", i, ids(f), want, f.More, f.Code, f.Err)
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

// What no task has is dropped as far as the fetch came, and no further.
func TestFetchTakesAMegabyteAmongWhatIsNoTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		made := makeLarge(t, r, 10, 2<<20, 10)
		must(t, r.Client().Del(ctx, "asynq:{q}:pending"))
		must(t, r.Client().LPush(ctx, "asynq:{q}:pending", "bad1", made[0], "bad2", made[1], "bad3", made[1], made[2], "bad4"))
		f := fetch(t, b, rdb.Fetch{N: 20})
		if f.Err != nil || !f.More || !slices.Equal(ids(f), made[:2]) || !slices.Equal(f.Dropped, []string{"bad1", "bad2"}) {
			t.Errorf("fetched %v, dropped %v, more: %v, error %v", ids(f), f.Dropped, f.More, f.Err)
		}
		f = fetch(t, b, rdb.Fetch{N: 20, Token: "f2"})
		if f.Err != nil || f.More || !slices.Equal(ids(f), made[2:]) || !slices.Equal(f.Dropped, []string{"bad3", made[1], "bad4"}) {
			t.Errorf("then fetched %v, dropped %v, more: %v, error %v", ids(f), f.Dropped, f.More, f.Err)
		}
	})
}

// It is not the cap that leaves a fetch short which has its megabyte: the queue is to be asked again at once.
func TestFetchTakesAMegabyteBelowTheCap(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		makeLarge(t, r, 2<<20, 2<<20, 2<<20, 10)
		for i, want := range []struct {
			code  rdb.Code
			tasks int
			more  bool
		}{{rdb.CodeOK, 1, true}, {rdb.CodeOK, 1, true}, {rdb.CodeCapped, 1, false}, {rdb.CodeCapped, 0, false}} {
			f := fetch(t, b, rdb.Fetch{N: 10, MaxActive: 3, Token: fmt.Sprint("f", i)})
			if f.Err != nil || f.Code != want.code || len(f.Tasks) != want.tasks || f.More != want.more {
				t.Errorf("fetch %d: %v, code %d, more: %v, error %v; want %+v", i, ids(f), f.Code, f.More, f.Err, want)
			}
		}
	})
}

// A fetch that must give back what it took gives back no more.
func TestFetchOfAMegabyteThatIsRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		made := makeLarge(t, r, 10, 2<<20, 10, 10)
		must(t, r.Client().Set(ctx, "asynq:{q}:lease", "of another type", 0))
		f := fetch(t, r.Broker(), rdb.Fetch{N: 10})
		if f.Err == nil || f.Tasks != nil {
			t.Errorf("fetched %v, error %v", ids(f), f.Err)
		}
		got := r.Client().LRange(ctx, "asynq:{q}:pending", 0, -1).Val()
		if slices.Reverse(got); !slices.Equal(got, made) {
			t.Errorf("in pending are %v, want %v", got, made)
		}
	})
}
