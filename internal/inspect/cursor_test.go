package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// rest walks from a cursor to the end and returns the visited IDs.
func rest(t *testing.T, b *rdb.Broker, state wire.State, reverse bool, from *inspect.Cursor) (ids []string) {
	t.Helper()
	walk, err := inspect.New(b).Walk("q", state, "", reverse, from)
	redistest.NoError(t, err)
	for {
		tasks, scanned, err := walk.Next(context.Background(), 200)
		redistest.NoError(t, err)
		if scanned == 0 {
			return ids
		}
		ids = append(ids, idsOf(tasks)...)
	}
}

// A walk continues from a cursor through many windows. The cursor is found again regardless of how
// many tasks were added.
func TestCursorInLongList(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		t.Run(fmt.Sprint("reverse ", reverse), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) { cursorInLongList(t, r, reverse) })
		})
	}
}

func cursorInLongList(t *testing.T, r *redistest.Redis, reverse bool) {
	r.AllowViolations()
	ctx := context.Background()
	b, c := r.Broker(), newCrowd(t, r, wire.StatePending)
	c.join(2000, nil)
	all := rest(t, b, wire.StatePending, reverse, nil)
	if len(all) != 2000 {
		t.Fatalf("%d tasks", len(all))
	}
	walk, err := inspect.New(b).Walk("q", wire.StatePending, "", reverse, nil)
	redistest.NoError(t, err)
	tasks, _, err := walk.Next(ctx, 200)
	redistest.NoError(t, err)
	cursor, more := walk.Cursor(tasks[149])
	if !more {
		t.Fatal("there is nothing after the cursor")
	}
	if got := rest(t, b, wire.StatePending, reverse, cursor); !slices.Equal(got, all[150:]) {
		t.Errorf("from the 150th on: %d tasks, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	before, err := r.Client().LRange(ctx, c.key(), 0, -1).Result()
	redistest.NoError(t, err)
	list := make([]any, 0, 12_000+len(before))
	for i := range 12_000 {
		list = append(list, fmt.Sprint("later", i))
	}
	for _, id := range before {
		list = append(list, id)
	}
	c.do(func(pipe redis.Pipeliner) { // as LPUSH does, for which a miniredis copies the list each time
		pipe.Del(ctx, c.key())
		pipe.RPush(ctx, c.key(), list...)
	})
	if got := rest(t, b, wire.StatePending, reverse, cursor); !slices.Equal(got, all[150:]) {
		t.Errorf("after 12,000 others have come: %d tasks", len(got))
	}
}

// Tasks leave the list on the right, where the walk began: however many of the visited tasks leave,
// the walk continues with the first unvisited one, even if all of them return on the left.
func TestCursorAmongFetchedTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		b, c := r.Broker(), newCrowd(t, r, wire.StatePending)
		c.join(2000, nil)
		all := rest(t, b, wire.StatePending, false, nil)
		for _, taken := range []int{104, 149, 155, 300, 900} { // 104: the cursor is at the edge of the first window
			walk, err := inspect.New(b).Walk("q", wire.StatePending, "", false, nil)
			redistest.NoError(t, err)
			tasks, _, err := walk.Next(ctx, 200)
			redistest.NoError(t, err)
			cursor, _ := walk.Cursor(tasks[149])
			redistest.NoError(t, r.Client().LTrim(ctx, "asynq:{q}:pending", 0, int64(-taken-1)).Err())
			c.comeBack(false, nil, all[:taken]...)
			want := slices.Concat(all[max(taken, 150):], all[:taken])
			if got := rest(t, b, wire.StatePending, false, cursor); !slices.Equal(got, want) {
				t.Errorf("after %d were taken: %d tasks, from %q on; want %d, from %q on", taken, len(got), got[0], len(want), want[0])
			}
			all = slices.Concat(all[taken:], all[:taken])
		}
	})
}

// Pushed tasks move the cursor to the far edge of the first window.
func TestCursorAtWindowEdge(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		b, c := r.Broker(), newCrowd(t, r, wire.StatePending)
		c.join(1000, nil)
		for _, joining := range []int{400, 404, 408} {
			all := rest(t, b, wire.StatePending, true, nil)
			walk, err := inspect.New(b).Walk("q", wire.StatePending, "", true, nil)
			redistest.NoError(t, err)
			tasks, _, err := walk.Next(context.Background(), 200)
			redistest.NoError(t, err)
			cursor, _ := walk.Cursor(tasks[149])
			c.join(joining, nil)
			if got := rest(t, b, wire.StatePending, true, cursor); !slices.Equal(got, all[150:]) {
				t.Errorf("after %d were pushed: %d tasks, from %q on; want %d, from %q on", joining, len(got), got[0], len(all)-150, all[150])
			}
		}
	})
}

// A cursor in a group that no longer exists is before the next group, which the walk visits whole.
func TestCursorInRemovedGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b := r.Broker()
		in := inspect.New(b)
		for _, group := range []string{"a", "b", "c"} {
			for n := range 4 {
				// The IDs of b and c sort before those of a: all have come in the same second,
				// perhaps.
				task := &rdb.NewTask{ID: fmt.Sprintf("%c%d", 'z'-group[0]+'a', n), Queue: "q", Group: group}
				m := redistest.Message("q", "any")
				m.ID, m.Group = task.ID, group
				var err error
				task.Message, err = m.Encode()
				redistest.NoError(t, err)
				b.Enqueue(ctx, task)
				redistest.NoError(t, task.Err)
			}
		}
		walk, err := in.Walk("q", wire.StateAggregating, "", false, nil)
		redistest.NoError(t, err)
		tasks, _, err := walk.Next(ctx, 200)
		redistest.NoError(t, err)
		cursor, _ := walk.Cursor(tasks[1])
		want := []string{"z2", "z3", "y0", "y1", "y2", "y3", "x0", "x1", "x2", "x3"}
		if got := rest(t, b, wire.StateAggregating, false, cursor); !slices.Equal(got, want) {
			t.Errorf("from the second on: %v, want %v", got, want)
		}
		_, err = apply(b, inspect.Delete, "z0", "z1", "z2", "z3")
		redistest.NoError(t, err)
		if got := rest(t, b, wire.StateAggregating, false, cursor); !slices.Equal(got, want[2:]) {
			t.Errorf("without the first group: %v, want %v", got, want[2:])
		}
	})
}
