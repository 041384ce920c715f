package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// rest walks on from a place to the end, and returns the IDs that it meets.
func rest(t *testing.T, b *rdb.Broker, state wire.State, from *rdb.Place) (ids []string) {
	t.Helper()
	walk, err := b.WalkFrom("q", state, "", from)
	must1(t, err)
	for {
		tasks, looked, err := walk.Next(context.Background(), 200)
		must1(t, err)
		if looked == 0 {
			return ids
		}
		ids = append(ids, idsOf(tasks)...)
	}
}

// A walk goes on from a place through many windows, and a place is found again however many were added.
func TestPlaceInALongList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		b, c := r.Broker(), newCrowd(t, r, wire.StatePending)
		c.join(2000, nil)
		all := rest(t, b, wire.StatePending, nil)
		if len(all) != 2000 {
			t.Fatalf("%d tasks", len(all))
		}
		walk, err := b.WalkFrom("q", wire.StatePending, "", nil)
		must1(t, err)
		tasks, _, err := walk.Next(ctx, 200)
		must1(t, err)
		place, more := walk.Place(tasks[149])
		if !more {
			t.Fatal("there is nothing behind the place")
		}
		if got := rest(t, b, wire.StatePending, place); !slices.Equal(got, all[150:]) {
			t.Errorf("from the 150th on: %d tasks, from %q to %q", len(got), got[0], got[len(got)-1])
		}
		for range 12 {
			ids := make([]any, 1000)
			for i := range ids {
				c.made++
				ids[i] = fmt.Sprint("later", c.made)
			}
			must1(t, r.Client().LPush(ctx, "asynq:{q}:pending", ids...).Err())
		}
		if got := rest(t, b, wire.StatePending, place); !slices.Equal(got, all[150:]) {
			t.Errorf("after 12,000 others have come: %d tasks", len(got))
		}
	})
}

// A place in a group that has gone is before the next group, all of which is met.
func TestPlaceInAGroupThatGoes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b := r.Broker()
		for _, group := range []string{"a", "b", "c"} {
			for n := range 4 {
				// The IDs of b and c sort before those of a: all have come in the same second, perhaps.
				task := &rdb.NewTask{ID: fmt.Sprintf("%c%d", 'z'-group[0]+'a', n), Queue: "q", Group: group}
				m := redistest.Message("q", "any")
				m.ID, m.Group = task.ID, group
				var err error
				task.Message, err = m.Encode()
				must1(t, err)
				b.Enqueue(ctx, task)
				must1(t, task.Err)
			}
		}
		walk, err := b.WalkFrom("q", wire.StateAggregating, "", nil)
		must1(t, err)
		tasks, _, err := walk.Next(ctx, 200)
		must1(t, err)
		place, _ := walk.Place(tasks[1])
		want := []string{"z2", "z3", "y0", "y1", "y2", "y3", "x0", "x1", "x2", "x3"}
		if got := rest(t, b, wire.StateAggregating, place); !slices.Equal(got, want) {
			t.Errorf("from the second on: %v, want %v", got, want)
		}
		_, err = b.DeleteTasks(ctx, "q", []string{"z0", "z1", "z2", "z3"})
		must1(t, err)
		if got := rest(t, b, wire.StateAggregating, place); !slices.Equal(got, want[2:]) {
			t.Errorf("without the first group: %v, want %v", got, want[2:])
		}
	})
}
