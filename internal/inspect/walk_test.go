package inspect_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// walkAll returns the IDs of all tasks of queue q in a state, n at a time.
func walkAll(t *testing.T, b *rdb.Broker, state wire.State, group string, n int, reverse bool) []string {
	t.Helper()
	walk, err := inspect.New(b).Walk("q", state, group, reverse, nil)
	redistest.NoError(t, err)
	var ids []string
	for {
		tasks, scanned, err := walk.Next(context.Background(), n)
		redistest.NoError(t, err)
		if scanned == 0 {
			return ids
		}
		ids = append(ids, idsOf(tasks)...)
	}
}

func TestWalk(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		for state, want := range seedOrdered(t, r) {
			for _, reverse := range []bool{false, true} {
				for _, n := range []int{1, 2, 3, 1000} {
					if got := walkAll(t, b, state, "", n, reverse); !slices.Equal(got, want) {
						t.Errorf("%v, %d at a time, reverse %v: %v, want %v", state, n, reverse, got, want)
					}
				}
				slices.Reverse(want)
			}
		}
		if got := walkAll(t, b, wire.StateAggregating, "none", 10, false); got != nil {
			t.Errorf("of no group: %v", got)
		}
	})
}

// TestWalkAmongOthers moves tasks of every state in and out at random during a walk. The walk must
// return each task that stays exactly once.
func TestWalkAmongOthers(t *testing.T) {
	redistest.LimitChecks(t, 100)
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				rapid.Check(t, func(t *rapid.T) { walkAmongOthers(t, r, state, false) })
			})
		})
	}
}

// TestWalkFromCursors does the same with a new walk for each call, which starts at the cursor
// of the previous one.
func TestWalkFromCursors(t *testing.T) {
	redistest.LimitChecks(t, 100)
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				rapid.Check(t, func(t *rapid.T) { walkAmongOthers(t, r, state, true) })
			})
		})
	}
}

// continueWalk starts a new walk after one of the tasks of the last call, and drops the tasks after
// it. The walk is nil at the end.
func continueWalk(
	t *rapid.T, r *redistest.Redis, state wire.State, reverse bool, walk *inspect.Walk, tasks []*inspect.TaskInfo,
) (*inspect.Walk, []*inspect.TaskInfo) {
	var last *inspect.TaskInfo
	if len(tasks) > 0 && rapid.Bool().Draw(t, "within the page") {
		tasks = tasks[:rapid.IntRange(1, len(tasks)).Draw(t, "kept")]
		last = tasks[len(tasks)-1]
	}
	cursor, more := walk.Cursor(last)
	if !more {
		return nil, tasks
	}
	cursor, err := inspect.ParseCursor(cursor.String())
	if err != nil {
		t.Fatal(err)
	}
	if walk, err = inspect.New(r.Broker()).Walk("q", state, "", reverse, cursor); err != nil {
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
	long, most := 1500, 40 // several windows; calls with changes
	if r.IsMini() {
		long, most = 800, 15 // its interpreter is slow
	}
	if list && rapid.IntRange(0, 19).Draw(t, "long") == 0 {
		c.join(long, score)
	}
	stayed := maps.Clone(c.in)

	reverse := rapid.Bool().Draw(t, "reverse")
	walk, err := inspect.New(r.Broker()).Walk("q", state, "", reverse, nil)
	must(err)
	met := make(map[string]int)
	calls := 0
	for scanned := 1; scanned > 0; calls++ {
		if calls > 5000 {
			t.Fatal("the walk does not come to its end")
		}
		var tasks []*inspect.TaskInfo
		n, changes := 200, calls < most // without changes, small pages find nothing new
		if changes {
			n = rapid.SampledFrom([]int{1, 2, 3, 5, 20, 200}).Draw(t, "n")
		}
		tasks, scanned, err = walk.Next(ctx, n)
		must(err)
		if paged && changes && scanned > 0 {
			walk, tasks = continueWalk(t, r, state, reverse, walk, tasks)
		}
		for _, task := range tasks {
			met[task.ID]++
		}
		if walk == nil {
			break
		}
		if changes {
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

// change makes a random change.
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
			return // a cursor is lost if all 16 tasks around it are gone
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

// reporter replaces Fatal by Error, which any goroutine may call.
type reporter struct{ *testing.T }

func (r reporter) Fatal(args ...any) { r.Error(args...) }

// TestWalkWhileOthersWork changes the state from another goroutine, between any two commands of the
// walk.
func TestWalkWhileOthersWork(t *testing.T) {
	for _, state := range []wire.State{wire.StatePending, wire.StateRetry} {
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprint(state, ", reverse ", reverse), func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) { walkWhileOthersWork(t, r, state, reverse) })
			})
		}
	}
}

func walkWhileOthersWork(t *testing.T, r *redistest.Redis, state wire.State, reverse bool) {
	r.AllowViolations()
	c := newCrowd(reporter{t}, r, state)
	score := func() float64 { return float64(c.made % 5) }
	n, walks := 1200, 10
	if r.IsMini() {
		n, walks = 700, 3 // two windows
	}
	c.join(n, score)
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
	for range walks {
		met := make(map[string]int)
		for _, id := range walkAll(t, r.Broker(), state, "", 50, reverse) {
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
}

// Many equal scores neither slow a walk down nor make it miss tasks when the previous page is gone.
func TestWalkOverTies(t *testing.T) {
	t.Parallel()
	r := redistest.Real(t) // a miniredis sorts the set again with every command
	r.AllowViolations()
	ctx := context.Background()
	at := time.Now().Add(time.Hour).Unix()
	c := newCrowd(t, r, wire.StateScheduled)
	const n = 20_000
	for range n / 1000 {
		c.join(1000, func() float64 { return float64(at) })
	}
	walk, err := inspect.New(r.Broker()).Walk("q", wire.StateScheduled, "", false, nil)
	redistest.NoError(t, err)
	met := make(map[string]bool)
	for {
		tasks, scanned, err := walk.Next(ctx, 200)
		redistest.NoError(t, err)
		if scanned == 0 {
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

// More entries before the walk are removed than windows overlap: it must search for its position.
func TestWalkOverListLosesItsPosition(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprint("reverse ", reverse), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx := context.Background()
				c := newCrowd(t, r, wire.StatePending)
				c.join(3000, nil)
				walk, err := inspect.New(r.Broker()).Walk("q", wire.StatePending, "", reverse, nil)
				redistest.NoError(t, err)
				var met []string
				for calls := 0; ; calls++ {
					tasks, scanned, err := walk.Next(ctx, 200)
					redistest.NoError(t, err)
					if scanned == 0 {
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
		})
	}
}

// In a long list of active tasks, the newest task takes the place of each one that ends.
func TestWalkOverActiveTasksThatMove(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprint("reverse ", reverse), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, client := context.Background(), r.Client()
				c := newCrowd(t, r, wire.StateActive)
				c.join(4000, nil)
				walk, err := inspect.New(r.Broker()).Walk("q", wire.StateActive, "", reverse, nil)
				redistest.NoError(t, err)
				var met []string
				ended := make(map[string]bool)
				for calls := 0; ; calls++ {
					tasks, scanned, err := walk.Next(ctx, 200)
					redistest.NoError(t, err)
					if scanned == 0 {
						break
					}
					met = append(met, idsOf(tasks)...)
					for n := range 60 {
						if calls < 25 {
							hole := int64((n*977 + calls*131) % 2400)
							newest := client.LPop(ctx, c.key()).Val()
							ended[client.LIndex(ctx, c.key(), hole).Val()] = true
							redistest.Must(t, client.LSet(ctx, c.key(), hole, newest))
						}
					}
				}
				slices.Sort(met)
				for id := range c.in {
					if _, found := slices.BinarySearch(met, id); !found && !ended[id] {
						t.Errorf("%s stayed and was missed", id)
					}
				}
				if n := len(met); n != len(slices.Compact(met)) {
					t.Errorf("of %d tasks some were visited twice", n)
				}
			})
		})
	}
}

// The tasks that a walk has visited leave the list, along with others, and return behind the
// unvisited ones. The walk must not conclude that it has visited the tasks before them.
func TestWalkOverListThatTurns(t *testing.T) {
	for _, state := range []wire.State{wire.StatePending, wire.StateActive} {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx := context.Background()
				c := newCrowd(t, r, state)
				c.join(3000, nil)
				all := walkAll(t, r.Broker(), state, "", 200, false)
				for _, more := range []int{0, 1, 300, 1900} {
					walk, err := inspect.New(r.Broker()).Walk("q", state, "", false, nil)
					redistest.NoError(t, err)
					met := make(map[string]int)
					for calls := 0; ; calls++ {
						tasks, scanned, err := walk.Next(ctx, 200)
						redistest.NoError(t, err)
						if scanned == 0 {
							break
						}
						for _, task := range tasks {
							met[task.ID]++
						}
						if calls != 4 {
							continue
						}
						taken := all[:1000+more]
						redistest.NoError(t, r.Client().LTrim(ctx, c.key(), 0, int64(-len(taken)-1)).Err())
						c.comeBack(false, nil, taken...)
						all = slices.Concat(all[len(taken):], taken)
					}
					for _, id := range all[:2000-more] {
						if met[id] != 1 {
							t.Fatalf("%d more were taken: %q stayed, and was met %d times", more, id, met[id])
						}
					}
				}
			})
		})
	}
}

// crowd is a queue whose tasks the test moves into and out of one state.
type crowd struct {
	t      fataler
	client redis.UniversalClient
	state  wire.State
	made   int
	marks  int
	in     map[string]bool // the tasks that are in the state
	left   map[string]bool // those that have ever left it
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newCrowd(t fataler, r *redistest.Redis, state wire.State) *crowd {
	return &crowd{t: t, client: r.Client(), state: state, in: make(map[string]bool), left: make(map[string]bool)}
}

const crowdGroup = "asynq:{q}:g:g:h"

func (c *crowd) key() string {
	if c.state == wire.StateAggregating {
		return crowdGroup
	}
	return "asynq:{q}:" + c.state.String()
}

func (c *crowd) do(commands func(pipe redis.Pipeliner)) {
	c.t.Helper()
	if _, err := c.client.Pipelined(context.Background(), func(pipe redis.Pipeliner) error {
		commands(pipe)
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

// join adds n new tasks to the state as clients do: on the left of a list, or anywhere in a sorted
// set.
func (c *crowd) join(n int, score func() float64) {
	c.t.Helper()
	ctx := context.Background()
	var message []byte
	c.do(func(pipe redis.Pipeliner) {
		var entries []redis.Z
		for range n {
			id := fmt.Sprintf("n%d", c.made)
			if c.made%3 == 1 {
				id = fmt.Sprintf("%x\xff%d", c.made*7919%97, c.made) // to sort otherwise than it was made
			}
			c.made++
			if message == nil {
				m := redistest.Message("q", "any")
				var err error
				if message, err = m.Encode(); err != nil {
					c.t.Fatal(err)
				}
			}
			entries = append(entries, c.mark(pipe, id, score, "msg", message, "group", "g:h"))
		}
		c.enter(pipe, false, entries)
		if c.state == wire.StateAggregating {
			pipe.SAdd(ctx, "asynq:{q}:groups", "g:h")
		}
	})
}

func (c *crowd) isList() bool { return c.state == wire.StatePending || c.state == wire.StateActive }

// mark writes the state of a task, and for a list a new time or token, as every transition into one
// does. It returns the entry of the task.
func (c *crowd) mark(pipe redis.Pipeliner, id string, score func() float64, fields ...any) redis.Z {
	c.in[id] = true
	e := redis.Z{Member: id}
	fields = append(fields, "state", c.state.String())
	if c.isList() {
		c.marks++
		field := map[wire.State]string{wire.StatePending: "pending_since", wire.StateActive: "token"}[c.state]
		fields = append(fields, field, 1_700_000_000_000_000_000+c.marks)
	} else {
		e.Score = score()
	}
	pipe.HSet(context.Background(), "asynq:{q}:t:"+id, fields...)
	return e
}

// enter adds entries with one command, for which a miniredis copies or sorts the collection once.
func (c *crowd) enter(pipe redis.Pipeliner, right bool, entries []redis.Z) {
	ctx := context.Background()
	if len(entries) == 0 {
		return
	}
	if !c.isList() {
		pipe.ZAdd(ctx, c.key(), entries...)
		return
	}
	ids := make([]any, len(entries))
	for i, e := range entries {
		ids[i] = e.Member
	}
	if right {
		pipe.RPush(ctx, c.key(), ids...)
	} else {
		pipe.LPush(ctx, c.key(), ids...)
	}
}

// leave removes tasks from the state.
func (c *crowd) leave(ids ...string) {
	c.t.Helper()
	ctx := context.Background()
	c.do(func(pipe redis.Pipeliner) {
		for _, id := range ids {
			delete(c.in, id)
			c.left[id] = true
			pipe.HSet(ctx, "asynq:{q}:t:"+id, "state", "gone")
			if c.isList() {
				pipe.LRem(ctx, c.key(), 1, id)
			} else {
				pipe.ZRem(ctx, c.key(), id)
				pipe.ZRem(ctx, crowdGroup+":set", id)
			}
		}
	})
}

// comeBack returns tasks to the state: on the left of a list, or on the right like a requeue.
func (c *crowd) comeBack(right bool, score func() float64, ids ...string) {
	c.t.Helper()
	c.do(func(pipe redis.Pipeliner) {
		var entries []redis.Z
		for _, id := range ids {
			entries = append(entries, c.mark(pipe, id, score))
		}
		c.enter(pipe, right, entries)
	})
}

// stage moves the first n tasks of the group into its aggregation set, as they are, and back moves
// all of them back.
func (c *crowd) stage(n int64) {
	ctx := context.Background()
	entries, err := c.client.ZRangeWithScores(ctx, crowdGroup, 0, n-1).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	c.do(func(pipe redis.Pipeliner) {
		for _, e := range entries {
			pipe.ZRem(ctx, crowdGroup, e.Member)
			pipe.ZAdd(ctx, crowdGroup+":set", e)
		}
		pipe.ZAdd(ctx, "asynq:{q}:aggregation_sets", redis.Z{Score: 1, Member: crowdGroup + ":set"})
	})
}

func (c *crowd) back() {
	ctx := context.Background()
	c.do(func(pipe redis.Pipeliner) {
		pipe.ZUnionStore(ctx, crowdGroup, &redis.ZStore{Keys: []string{crowdGroup, crowdGroup + ":set"}, Aggregate: "MAX"})
		pipe.Del(ctx, crowdGroup+":set")
		pipe.ZRem(ctx, "asynq:{q}:aggregation_sets", crowdGroup+":set")
	})
}
