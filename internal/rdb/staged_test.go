package rdb_test

import (
	"context"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// A task that fell back to its group belongs to whoever stages it next: the one that held it before does not take it away.
func TestSetAsideAfterRegroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		fill(t, r, "g", 2)
		sets := stage(t, b, rdb.GroupRule{MaxSize: 2})
		if err := b.Regroup(ctx, "q", sets); err != nil {
			t.Fatal(err)
		}
		unchanged(t, r, "setting aside what is back in its group", func() {
			if err := b.SetAsideStaged(ctx, sets[0], "g1"); err != nil {
				t.Error(err)
			}
		})
	})
}

// The lock that a task of the set holds goes to the new task; an ID that is taken does not.
func TestHandOverTakenIDWithOwnLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		r.Make(t, redistest.NewTask(t, "q", "taken"), lock(grouped(t, "g1", "g"), "x"), grouped(t, "h1", "h"))
		for _, set := range stage(t, b, atOnce) {
			if set.Group != "g" {
				continue
			}
			for _, id := range []string{"taken", "h1"} {
				unchanged(t, r, "a hand over as "+id, func() {
					if code := handOver(t, b, set, lock(redistest.NewTask(t, "q", id), "x")); code != rdb.CodeConflict {
						t.Errorf("code %d, want %d", code, rdb.CodeConflict)
					}
				})
			}
		}
	})
}
