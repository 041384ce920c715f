package trend

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// The commands to Redis are those that docs/WEB.md names: one for each hour of minutes or day of
// hours and queue at first, and for the last minutes later.
func TestCommands(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr()}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	for n := range 3 {
		if _, err := client.Enqueue(asynq.NewTask("a", nil), asynq.Queue(fmt.Sprint("q", n))); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	cache := New(inspector)
	cache.now = func() time.Time { return now }
	read := func(of Subject, r Range) int {
		t.Helper()
		before := mini.CommandCount()
		if _, err := cache.History(context.Background(), of, r, State{}); err != nil {
			t.Fatal(err)
		}
		return mini.CommandCount() - before
	}
	read(Subject{Queue: "q1"}, Hour) // connects
	const exists = 1                 // the queue, or the list of all
	for _, c := range []struct {
		r     Range
		first int
	}{{Hour, 2}, {Hours, 7}, {Days, 49}, {Month, 31}} {
		now = time.Now()
		for queue, n := range map[string]int{"q0": 1, "": 3} {
			now = time.Now()
			if got := read(Subject{Queue: queue}, c.r); got > n*c.first+exists || got < n*(c.first-1) {
				t.Errorf("%v of queue %q: %d commands at first, want about %d", c.r, queue, got, n*c.first)
			}
			if got := read(Subject{Queue: queue}, c.r); got != 0 {
				t.Errorf("%v of queue %q: %d commands at once again", c.r, queue, got)
			}
			now = now.Add(fresh)
			if got := read(Subject{Queue: queue}, c.r); got > 2*n+exists || got == 0 {
				t.Errorf("%v of queue %q: %d commands later, want up to %d", c.r, queue, got, 2*n)
			}
		}
	}
}
