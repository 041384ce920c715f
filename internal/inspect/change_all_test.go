package inspect_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// source is a collection whose tasks can all be changed at once.
type source struct {
	state wire.State
	group string
	key   string
}

func sources(keys wire.Queue) map[string]source {
	return map[string]source{
		"pending":     {wire.StatePending, "", keys.Pending()},
		"scheduled":   {wire.StateScheduled, "", keys.Scheduled()},
		"retry":       {wire.StateRetry, "", keys.Retry()},
		"archived":    {wire.StateArchived, "", keys.Archived()},
		"completed":   {wire.StateCompleted, "", keys.Completed()},
		"aggregating": {wire.StateAggregating, "g", keys.Group("g")},
	}
}

// fillSource creates n tasks t0, t1, … in a collection, oldest first.
func fillSource(t *testing.T, r *redistest.Redis, from source, n int) {
	t.Helper()
	ctx, b := context.Background(), r.Broker()
	tasks := make([]*rdb.NewTask, n)
	for i := range tasks {
		tasks[i] = redistest.NewTask(t, "q", fmt.Sprint("t", i))
		tasks[i].Group = from.group
		if from.state == wire.StateScheduled {
			tasks[i].ProcessAt = time.Now().Unix() + 3600 + int64(i/7)
		}
	}
	r.Make(t, tasks...)
	outcome, ends := map[wire.State]rdb.Outcome{
		wire.StateRetry: rdb.Retry, wire.StateArchived: rdb.Archive, wire.StateCompleted: rdb.Complete,
	}[from.state]
	for done := 0; ends && done < n; {
		f := r.Fetch(t, "q", min(n-done, 500))
		turn := &rdb.RoundTrip{}
		for i, task := range f.Tasks {
			turn.Settle = append(turn.Settle, &rdb.Settlement{
				Queue: "q", ID: task.ID, Token: f.Token, Outcome: outcome, Retention: 3600, Delay: time.Duration(3600+(done+i)/7) * time.Second,
			})
		}
		b.RoundTrip(ctx, turn)
		done += len(f.Tasks)
	}
}

// changeAll changes all tasks of queue q in a state and returns their number.
func changeAll(b *rdb.Broker, verb inspect.Verb, from wire.State, group string) (int, error) {
	var done inspect.Changed
	ch := inspect.Change{Verb: verb, Queue: "q", From: from, Group: group, Done: &done}
	err := inspect.New(b).ChangeAll(context.Background(), ch)
	return done.Tasks(), err
}

func TestAllTasks(t *testing.T) {
	n := 1203
	if redistest.Race {
		n = 503 // three calls
	}
	b := rdb.New(nil, "")
	for op, states := range map[inspect.Verb][]string{
		inspect.Run:     {"scheduled", "retry", "archived", "completed", "aggregating"},
		inspect.Archive: {"pending", "scheduled", "retry", "aggregating"},
		inspect.Delete:  slices.Collect(maps.Keys(sources(b.Keys("q")))),
	} {
		for _, state := range states {
			t.Run(string(op)+" "+state, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					ctx := context.Background()
					b, recorded := redistest.RecordingBroker(t, r)
					keys := b.Keys("q")
					from := sources(keys)[state]
					fillSource(t, r, from, n)
					redistest.Must(t, r.Client().Set(ctx, keys.Task("not of the queue's"), 1, time.Hour)) // no hash, and in no collection
					// IDs without a task, at either end.
					if from.state == wire.StatePending {
						redistest.Must(t, r.Client().LPush(ctx, keys.Pending(), "stray1"))
						redistest.Must(t, r.Client().RPush(ctx, keys.Pending(), "stray2"))
					} else {
						redistest.Must(t, r.Client().ZAdd(ctx, from.key, redis.Z{Score: 1, Member: "stray1"}, redis.Z{Score: 1e10, Member: "stray2"}))
					}
					got, err := changeAll(b, op, from.state, from.group)
					if err != nil || got != n {
						t.Errorf("%d tasks, error %v; want %d", got, err, n)
					}
					redistest.Must(t, r.Client().Del(ctx, keys.Task("not of the queue's")))
					if r.Client().Exists(ctx, from.key, keys.Groups()).Val() != 0 {
						t.Error("the collection or its name is still there")
					}
					switch op {
					case inspect.Run:
						ids := r.Client().LRange(ctx, keys.Pending(), 0, -1).Val()
						slices.Reverse(ids)
						for i, id := range ids {
							// Tasks of the same second have no order.
							if state == "scheduled" && numberOf(t, id)/7 != i/7 {
								t.Fatalf("task %s runs as number %d", id, i)
							}
						}
						if len(ids) != n || r.Client().Exists(ctx, keys.Marker()).Val() != 1 {
							t.Errorf("%d are pending, or the marker is missing", len(ids))
						}
					case inspect.Archive:
						if got := r.Client().ZCard(ctx, keys.Archived()).Val(); int(got) != n {
							t.Errorf("%d are archived", got)
						}
					case inspect.Delete:
						if left := r.Client().Keys(ctx, keys.TaskPrefix()+"*").Val(); len(left) > 0 {
							t.Errorf("%d tasks are left", len(left))
						}
					}
					for _, call := range recorded.Calls["change"] {
						if len(call.Keys) > 250+10 {
							t.Errorf("a call has %d keys", len(call.Keys))
						}
					}
					if calls := len(recorded.Calls["change"]); calls > 5 {
						t.Errorf("%d calls for %d tasks", calls, n)
					}
					if got, err := changeAll(b, op, from.state, from.group); err != nil || got != 0 {
						t.Errorf("once more: %d tasks, error %v", got, err)
					}
				})
			})
		}
	}
}

func numberOf(t *testing.T, id string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(id, "t%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// restless is a hook that calls a function before each script call.
type restless struct {
	redis.Hook
	before func()
}

func (h *restless) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *restless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *restless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			h.before()
		}
		return next(ctx, cmd)
	}
}

// restlessBroker returns a broker that calls f before each script call.
func restlessBroker(t *testing.T, r *redistest.Redis, f func()) *rdb.Broker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(&restless{before: f})
	return rdb.New(client, "")
}

// A bulk call ends even if others add tasks faster than it changes them. If they are slower, it
// changes every task that existed before.
func TestAllTasksEnds(t *testing.T) {
	for name := range sources(rdb.New(nil, "").Keys("q")) {
		if name == "retry" || name == "archived" || name == "completed" {
			continue // sets, as scheduled is
		}
		for _, added := range []int{100, 600} {
			t.Run(fmt.Sprint(name, added), func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) { allTasksEnd(t, r, name, added) })
			})
		}
	}
}

// allTasksEnd deletes all tasks of a collection while others add some before each call.
func allTasksEnd(t *testing.T, r *redistest.Redis, name string, added int) {
	t.Helper()
	from := sources(r.Broker().Keys("q"))[name]
	const old = 600
	fillSource(t, r, from, old)
	calls := 0
	b := restlessBroker(t, r, func() {
		calls++
		tasks := make([]*rdb.NewTask, added)
		for i := range tasks {
			task := redistest.NewTask(t, "q", fmt.Sprintf("new%d-%d", calls, i))
			task.Group = from.group
			if from.state == wire.StateScheduled {
				task.ProcessAt = time.Now().Unix() + 3600 - 10 + int64(i) // before the old ones, among them, and after
			}
			tasks[i] = task
		}
		r.Make(t, tasks...)
	})
	n, err := changeAll(b, inspect.Delete, from.state, from.group)
	timed := from.state == wire.StateAggregating // the scores say when tasks came: it ends when the second does
	if err != nil || n < old || calls > 20 && !timed {
		t.Errorf("%d tasks in %d calls, error %v", n, calls, err)
	}
	if left := r.Client().Keys(context.Background(), b.Keys("q").TaskPrefix()+"t*").Val(); (added < 250 || timed) && len(left) > 0 {
		t.Errorf("%d of the old tasks are left", len(left))
	}
}

// A task that has left the requested state since its ID was read stays unchanged.
func TestAllTasksLeavesOthersAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		fillSource(t, r, sources(r.Broker().Keys("q"))["scheduled"], 3)
		b := restlessBroker(t, r, func() {
			if _, err := apply(r.Broker(), inspect.Run, "t1"); err != nil {
				t.Error(err)
			}
		})
		if n, err := changeAll(b, inspect.Delete, wire.StateScheduled, ""); err != nil || n != 2 {
			t.Errorf("%d tasks, error %v; want 2", n, err)
		}
		if f := r.Fetch(t, "q", 1); f.Tasks[0].ID != "t1" {
			t.Errorf("fetched %q", f.Tasks[0].ID)
		}
	})
}

// Staged tasks stay, and so do keys that only resemble a group.
func TestAllTasksOfAGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		seedChanges(t, r)
		for _, verb := range []inspect.Verb{inspect.Run, inspect.Archive, inspect.Delete} {
			redistest.Unchanged(t, r, string(verb)+" of an aggregation set", func() {
				if n, err := changeAll(b, verb, wire.StateAggregating, "g:u"); n != 0 || err != nil {
					t.Errorf("%d tasks, error %v", n, err)
				}
			})
		}
		if n, err := changeAll(b, inspect.Delete, wire.StateAggregating, "g"); n != 1 || err != nil {
			t.Errorf("%d tasks, error %v", n, err)
		}
		if got := r.Client().ZCard(ctx, b.Keys("q").AggregationSet("g", "u")).Val(); got != 1 {
			t.Errorf("%d tasks are staged, want 1", got)
		}
	})
}

// Many tasks are deleted in many short calls, between which Redis serves other clients.
func TestDeleteAllInShortCalls(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		const n = 5000
		fillSource(t, r, source{state: wire.StateScheduled}, n)
		if got, err := changeAll(b, inspect.Delete, wire.StateScheduled, ""); err != nil || got != n {
			t.Errorf("deleted %d, error %v", got, err)
		}
		calls := recorded.Calls["change"]
		for _, call := range calls {
			if len(call.Keys) > 250+10 {
				t.Errorf("a call has %d keys", len(call.Keys))
			}
		}
		if len(calls) != n/250 {
			t.Errorf("%d calls, want %d", len(calls), n/250)
		}
		if keys := r.Client().Keys(ctx, "asynq:{q}:t:*").Val(); len(keys) > 0 {
			t.Errorf("%d tasks are left", len(keys))
		}
	})
}
