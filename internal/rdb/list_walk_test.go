package rdb_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// walkAll returns the IDs of all tasks of queue q in a state, met n at a time.
func walkAll(t *testing.T, b *rdb.Broker, state wire.State, group string, n int) []string {
	t.Helper()
	walk, err := b.Walk("q", state, group)
	must1(t, err)
	var ids []string
	for {
		tasks, looked, err := walk.Next(context.Background(), n)
		must1(t, err)
		if looked == 0 {
			return ids
		}
		ids = append(ids, idsOf(tasks)...)
	}
}

func TestWalk(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		for state, want := range seedOrdered(t, r) {
			if state == wire.StatePending || state == wire.StateActive {
				slices.Reverse(want)
			}
			for _, n := range []int{1, 2, 3, 1000} {
				if got := walkAll(t, b, state, "", n); !slices.Equal(got, want) {
					t.Errorf("%v, %d at a time: %v, want %v", state, n, got, want)
				}
			}
		}
		if got := walkAll(t, b, wire.StateAggregating, "none", 10); got != nil {
			t.Errorf("of no group: %v", got)
		}
	})
}

// TestWalkAmongOthers has tasks of every state come, go and come back at random while a walk goes over them. Each that stays is met
// exactly once.
func TestWalkAmongOthers(t *testing.T) {
	limit(t, 100)
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				rapid.Check(t, func(t *rapid.T) { walkAmongOthers(t, r, state, false) })
			})
		})
	}
}

// TestWalkFromPlaceToPlace does the same with a new walk for each call, which knows nothing but the place of the last one.
func TestWalkFromPlaceToPlace(t *testing.T) {
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				rapid.Check(t, func(t *rapid.T) { walkAmongOthers(t, r, state, true) })
			})
		})
	}
}

// goOn makes a new walk from behind one of the tasks of the last call, and drops those that come after it. It is nil at the end.
func goOn(t *rapid.T, r *redistest.Redis, state wire.State, walk *rdb.Walk, tasks []*rdb.TaskInfo) (*rdb.Walk, []*rdb.TaskInfo) {
	var last *rdb.TaskInfo
	if len(tasks) > 0 && rapid.Bool().Draw(t, "within the page") {
		tasks = tasks[:rapid.IntRange(1, len(tasks)).Draw(t, "kept")]
		last = tasks[len(tasks)-1]
	}
	place, more := walk.Place(last)
	if !more {
		return nil, tasks
	}
	place, err := rdb.ParsePlace(place.String())
	if err != nil {
		t.Fatal(err)
	}
	if walk, err = r.Broker().WalkFrom("q", state, "", place); err != nil {
		t.Fatal(err)
	}
	return walk, tasks
}

func walkAmongOthers(t *rapid.T, r *redistest.Redis, state wire.State, paged bool) {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.Client().FlushDB(ctx).Err())
	list := state == wire.StatePending || state == wire.StateActive
	scores := rapid.SampledFrom([]float64{0, 1, 2, 2, 2, 2, 1.7e9, 1.7e9 + 0.5, 1e18})
	score := func() float64 { return scores.Draw(t, "score") }
	c := newCrowd(t, r, state)
	c.join(rapid.IntRange(0, 40).Draw(t, "at first"), score)
	if list && rapid.IntRange(0, 19).Draw(t, "long") == 0 {
		c.join(1500, score) // so that it takes several windows
	}
	stayed := maps.Clone(c.in)

	walk, err := r.Broker().Walk("q", state, "")
	if paged {
		walk, err = r.Broker().WalkFrom("q", state, "", nil)
	}
	must(err)
	met := make(map[string]int)
	calls := 0
	for looked := 1; looked > 0; calls++ {
		if calls > 5000 {
			t.Fatal("the walk does not come to its end")
		}
		var tasks []*rdb.TaskInfo
		tasks, looked, err = walk.Next(ctx, rapid.SampledFrom([]int{1, 2, 3, 5, 20, 200}).Draw(t, "n"))
		must(err)
		if paged && looked > 0 {
			walk, tasks = goOn(t, r, state, walk, tasks)
		}
		for _, task := range tasks {
			met[task.ID]++
		}
		if walk == nil {
			break
		}
		if calls < 40 {
			change(t, c, list, paged, score)
		}
	}
	for id := range stayed {
		if c.left[id] {
			continue
		}
		if met[id] != 1 {
			t.Fatalf("%q stayed, and was met %d times", id, met[id])
		}
	}
}

// change changes something at random.
func change(t *rapid.T, c *crowd, list, paged bool, score func() float64) {
	c.t = t
	ids := slices.Sorted(maps.Keys(c.in))
	some := func(most int) []string {
		if len(ids) == 0 {
			return nil
		}
		from := rapid.IntRange(0, len(ids)-1).Draw(t, "from")
		return ids[from:min(len(ids), from+rapid.IntRange(1, most).Draw(t, "most"))]
	}
	gone := slices.Sorted(maps.Keys(c.left))
	gone = slices.DeleteFunc(gone, func(id string) bool { return c.in[id] })
	switch rapid.IntRange(0, 6).Draw(t, "change") {
	case 0:
		c.join(rapid.IntRange(1, 30).Draw(t, "joining"), score)
	case 1:
		if list {
			c.join(rapid.SampledFrom([]int{1, 50, 300}).Draw(t, "joining"), score)
		}
	case 2:
		c.leave(some(5)...)
	case 3:
		if list && paged {
			return // a place among 16 tasks that are gone is lost
		}
		c.leave(some(400)...)
	case 4:
		if len(gone) > 0 {
			c.comeBack(false, score, gone[rapid.IntRange(0, len(gone)-1).Draw(t, "back")])
		}
	case 5:
		if c.state == wire.StatePending { // taken, and perhaps given back
			taken, err := c.client.LRange(context.Background(), c.key(), int64(-rapid.IntRange(1, 300).Draw(t, "taken")), -1).Result()
			if err != nil {
				t.Fatal(err)
			}
			c.leave(taken...)
			if len(taken) > 0 && rapid.Bool().Draw(t, "given back") {
				c.comeBack(true, score, taken...)
			}
		}
	case 6:
		if c.state == wire.StateAggregating {
			if rapid.Bool().Draw(t, "stage") {
				c.stage(int64(rapid.IntRange(1, 20).Draw(t, "staged")))
			} else {
				c.back()
			}
		}
	}
}

// reporter takes what is fatal for an error: it may be called from any goroutine.
type reporter struct{ *testing.T }

func (r reporter) Fatal(args ...any) { r.Error(args...) }

// TestWalkWhileOthersWork changes the state from another goroutine, between any two commands of the walk.
func TestWalkWhileOthersWork(t *testing.T) {
	for _, state := range []wire.State{wire.StatePending, wire.StateRetry} {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				c := newCrowd(reporter{t}, r, state)
				score := func() float64 { return float64(c.made % 5) }
				c.join(1200, score)
				stayed := maps.Clone(c.in)
				var others sync.WaitGroup
				stop := make(chan struct{})
				others.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						c.join(30, score)
						ids := slices.Sorted(maps.Keys(c.in))
						ids = slices.DeleteFunc(ids, func(id string) bool { return stayed[id] })
						c.leave(ids[:len(ids)-10]...)
						c.comeBack(false, score, ids[:3]...)
					}
				})
				for range 10 {
					met := make(map[string]int)
					for _, id := range walkAll(t, r.Broker(), state, "", 50) {
						met[id]++
					}
					for id := range stayed {
						if met[id] != 1 {
							t.Errorf("%q stayed, and was met %d times", id, met[id])
						}
					}
				}
				close(stop)
				others.Wait()
			})
		})
	}
}

// Many equal scores do not slow a walk down, nor make it miss tasks when the page before is gone.
func TestWalkOverTies(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t) // a miniredis sorts the set anew with every command
	r.AllowViolations()
	ctx := context.Background()
	at := time.Now().Add(time.Hour).Unix()
	c := newCrowd(t, r, wire.StateScheduled)
	const n = 20_000
	for range n / 1000 {
		c.join(1000, func() float64 { return float64(at) })
	}
	walk, err := r.Broker().Walk("q", wire.StateScheduled, "")
	must1(t, err)
	met := make(map[string]bool)
	for {
		tasks, looked, err := walk.Next(ctx, 200)
		must1(t, err)
		if looked == 0 {
			break
		}
		var page []string
		for _, task := range tasks {
			if met[task.ID] {
				t.Fatalf("%q was met twice", task.ID)
			}
			met[task.ID] = true
			page = append(page, task.ID)
		}
		if len(met)%1000 == 0 {
			c.leave(page...) // all that the cursor could hold on to
		}
	}
	if len(met) != n {
		t.Errorf("met %d of %d", len(met), n)
	}
}

// More is removed than windows overlap, on the left of where the walk is: it must look for its place.
func TestWalkOverListLosesItsPlace(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		c := newCrowd(t, r, wire.StatePending)
		c.join(3000, nil)
		walk, err := r.Broker().Walk("q", wire.StatePending, "")
		must1(t, err)
		var met []string
		for calls := 0; ; calls++ {
			tasks, looked, err := walk.Next(ctx, 200)
			must1(t, err)
			if looked == 0 {
				break
			}
			met = append(met, idsOf(tasks)...)
			if calls == 6 {
				c.leave(met[10:]...)
			}
			if calls == 9 {
				c.leave(met...)
			}
		}
		if slices.Sort(met); len(met) != 3000 || len(slices.Compact(met)) != 3000 {
			t.Errorf("met %d, of which %d differ", len(met), len(slices.Compact(met)))
		}
	})
}
