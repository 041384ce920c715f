package dash

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// A search scans all tasks of the state, and splits its matches into pages.
func TestSearchOfAllTasks(t *testing.T) {
	t.Parallel()
	client, insp := tools(t, asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()})
	tasks := make([]*asynq.Task, 5000)
	for n := range tasks {
		tasks[n] = asynq.NewTask(fmt.Sprint("type:", n%40), nil)
	}
	tasks[0], tasks[2500], tasks[4999] = asynq.NewTask("rare", nil), asynq.NewTask("rare", nil), asynq.NewTask("rare", nil)
	for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	d := drive(t, quick(client, insp))
	d.see("default")
	d.keys("enter /")
	d.typed("type:rare")
	d.keys("enter")
	d.see("3 found")
	d.keys("/ ctrl+u")
	d.typed("type:type:7")
	d.keys("enter")
	d.see("100 found, more available")
	d.keys(">")
	d.see("101–125 found")
	d.keys("> <")
	d.see("100 found, more available")
}

// gate is a hook that passes a limited number of large scripts and blocks the others until it is
// opened.
type gate struct {
	left atomic.Int64
	open chan struct{}
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.pass(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gate) pass(ctx context.Context, cmd redis.Cmder) {
	if cmd.Name() != "evalsha" || len(cmd.Args()) < 150 || g.left.Add(-1) >= 0 { // scripts that read tasks by ID have many keys
		return
	}
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// While a search runs, the screen shows its progress and other keys work. Esc stops it and keeps
// its matches.
//
// The test needs a real Redis: its scripts have hundreds of keys, which miniredis takes seconds to
// run on a busy machine under the race detector.
func TestStopSearch(t *testing.T) {
	t.Parallel()
	addr := proctest.StartRedis(t).Addr()
	client, _ := tools(t, asynq.RedisClientOpt{Addr: addr})
	tasks := make([]*asynq.Task, 2000)
	for n := range tasks {
		tasks[n] = asynq.NewTask(fmt.Sprint("type:", n%1000), nil)
	}
	for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	g := &gate{open: make(chan struct{})}
	g.left.Store(6)
	slow := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = slow.Close() })
	slow.AddHook(g)
	d := drive(t, quick(client, asynq.NewInspectorFromRedisClient(slow)))
	d.see("default")
	d.keys("enter")
	d.see("1–100 of 2,000")
	d.keys("/")
	d.typed("type:type:500")
	d.keys("enter")
	d.see("scanned 1,", " of 2,000 · 1 found · esc to stop")
	d.keys("?")
	d.see("press any key to close")
	d.keys("esc")
	d.lacks("press any key to close")
	d.keys("esc")
	d.see("stopped after 1,", " of 2,000 · 1 found")
	close(g.open)
	d.keys("ctrl+r")
	d.see("2 found")
	d.keys("esc")
	d.see("1–100 of 2,000")
}

// The order of tasks is the same with and without a filter, and "o" reverses it.
func TestTaskOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		for n := range 7 {
			id := fmt.Sprint(n)
			enqueue(t, client, asynq.NewTask("x", nil), asynq.TaskID("pending"+id))
			enqueue(t, client, asynq.NewTask("x", nil), asynq.TaskID("scheduled"+id), asynq.ProcessIn(time.Duration(n+1)*time.Hour))
			enqueue(t, client, asynq.NewTask("x", nil), asynq.TaskID("group"+id), asynq.Group("g"))
		}
		d := drive(t, quick(client, insp))
		d.see("default")
		d.keys("enter")
		listed := func() []string {
			var ids []string
			for _, row := range d.m.shown.rows {
				ids = append(ids, row.ref.id)
			}
			return ids
		}
		for _, state := range []asynq.TaskState{asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateAggregating} {
			name := map[asynq.TaskState]string{asynq.TaskStateAggregating: "group"}[state]
			if name == "" {
				name = state.String()
			}
			var want []string
			for n := range 7 {
				want = append(want, fmt.Sprint(name, n))
			}
			for _, text := range []string{"", "x"} {
				d.m.listTasks("default", state, "")
				d.m.setFilter(text)
				d.send(tickMsg{})
				d.until(fmt.Sprintf("%v with filter %q in order", state, text), func() bool { return slices.Equal(listed(), want) })
				d.keys("o")
				d.see("· reversed")
				slices.Reverse(want)
				d.until(fmt.Sprintf("%v with filter %q in reverse", state, text), func() bool { return slices.Equal(listed(), want) })
				slices.Reverse(want)
				d.keys("o")
				d.lacks("· reversed")
			}
		}
	})
}
