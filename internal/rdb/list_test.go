package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// idsOf are the IDs of tasks, in their order.
func idsOf(tasks []*rdb.TaskInfo) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

// list lists tasks of queue q. An error ends the test.
func list(t *testing.T, b *rdb.Broker, state wire.State, group string, offset, limit int) []*rdb.TaskInfo {
	t.Helper()
	tasks, err := b.ListTasks(context.Background(), "q", state, group, offset, limit)
	if err != nil {
		t.Fatalf("listing %v tasks: %v", state, err)
	}
	return tasks
}

// seedOrdered makes three tasks in each state, which are to be listed in the order of their numbers, and returns their IDs. It
// writes scores by hand, for the times to differ.
func seedOrdered(t *testing.T, r *redistest.Redis) map[wire.State][]string {
	t.Helper()
	ctx, b, now := context.Background(), r.Broker(), time.Now()
	want := make(map[wire.State][]string)
	make3 := func(state wire.State, change func(task *rdb.NewTask, i int)) {
		for i := range 3 {
			task := redistest.NewTask(t, "q", fmt.Sprintf("%v%d", state, i))
			if change != nil {
				change(task, i)
			}
			r.Make(t, task)
			want[state] = append(want[state], task.ID)
		}
	}
	outcomes := []struct {
		state   wire.State
		outcome rdb.Outcome
		key     string
		step    int
	}{{wire.StateRetry, rdb.Retry, "retry", 1}, {wire.StateArchived, rdb.Archive, "archived", -1}, {wire.StateCompleted, rdb.Complete, "completed", -1}}
	for _, o := range outcomes {
		make3(o.state, nil)
		f := r.Fetch(t, "q", 3)
		for i, task := range f.Tasks {
			settle(t, b, rdb.Settlement{ID: task.ID, Token: f.Token, Outcome: o.outcome, Message: message(t, task.ID), Retention: 3600, Delay: time.Hour, Failed: true})
			score := float64(now.Add(time.Duration(o.step*i)*time.Minute + time.Hour).Unix())
			must(t, r.Client().ZAdd(ctx, "asynq:{q}:"+o.key, redis.Z{Score: score, Member: task.ID}))
		}
	}
	make3(wire.StateActive, nil)
	r.Fetch(t, "q", 3)
	make3(wire.StatePending, nil)
	make3(wire.StateScheduled, func(task *rdb.NewTask, i int) { task.ProcessAt = now.Add(time.Duration(i+1) * time.Hour).Unix() })
	make3(wire.StateAggregating, func(task *rdb.NewTask, _ int) { task.Group = "g" })
	return want
}

func TestListTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		for state, want := range seedOrdered(t, r) {
			all := list(t, b, state, "g", 0, 30)
			if got := idsOf(all); !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", state, got, want)
				continue
			}
			for _, task := range all {
				waits := state == wire.StateScheduled || state == wire.StateRetry
				grouped := state == wire.StateAggregating
				if task.State != state || task.Queue != "q" || task.Message == nil || task.Message.ID != task.ID || task.Orphaned ||
					task.ProcessAt.IsZero() == waits || (task.Group == "g") != grouped || time.Since(task.Now).Abs() > time.Minute {
					t.Errorf("%v: %+v", state, task)
				}
				// Completed tasks do not tell: the message is the one that they had before.
				if told := !task.Since.IsZero(); told == (state == wire.StateActive || state == wire.StateCompleted) {
					t.Errorf("%v since %v", state, task.Since)
				}
			}
			var paged []string
			for page := range 4 {
				paged = append(paged, idsOf(list(t, b, state, "g", page, 1))...)
			}
			if !slices.Equal(paged, want) {
				t.Errorf("%v, one by one: %v", state, paged)
			}
			if got := idsOf(list(t, b, state, "g", 1, 5)); !slices.Equal(got, want[1:]) {
				t.Errorf("%v, from the second on: %v", state, got)
			}
			for _, offset := range []int{3, 1 << 40} {
				if got := list(t, b, state, "g", offset, 5); len(got) != 0 {
					t.Errorf("%v, from %d on: %v", state, offset, got)
				}
			}
		}
		if got := list(t, b, wire.StateAggregating, "none", 0, 5); len(got) != 0 {
			t.Errorf("of no group: %v", got)
		}
		if _, err := b.ListTasks(context.Background(), "q", 99, "", 0, 1); err == nil {
			t.Error("no error for a state that is none")
		}
		expire(t, r, time.Hour, "active1")
		for i, task := range list(t, b, wire.StateActive, "", 0, 5) {
			if task.Orphaned != (i == 1) {
				t.Errorf("%s is orphaned: %v", task.ID, task.Orphaned)
			}
		}
	})
}

// A page of any size is put together from short calls, which return a bounded number of bytes.
func TestListTasksInParts(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := recordingBroker(t, r)
		ids := r.Enqueue(t, "q", 450)
		if got := idsOf(list(t, b, wire.StatePending, "", 0, 1000)); !slices.Equal(got, ids) {
			t.Errorf("listed %d of %d, or in another order", len(got), len(ids))
		}
		if n := len(recorded.calls["list_tasks"]); n != 3 {
			t.Errorf("%d calls", n)
		}
		if got := idsOf(list(t, b, wire.StatePending, "", 149, 201)); !slices.Equal(got, ids[149:350]) {
			t.Errorf("listed %d, or in another order", len(got))
		}
	})
}

func TestListLargeTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := recordingBroker(t, r)
		var ids []string
		for i := range 9 {
			m := redistest.Message("q", fmt.Sprint("large", i))
			m.Payload = make([]byte, 400_000)
			r.Make(t, &rdb.NewTask{ID: m.ID, Queue: "q", Message: redistest.Encode(t, m), ProcessAt: time.Now().Add(time.Hour).Unix()})
			ids = append(ids, m.ID)
			m.ID = "p" + m.ID
			r.Make(t, &rdb.NewTask{ID: m.ID, Queue: "q", Message: redistest.Encode(t, m)})
		}
		if got := idsOf(list(t, b, wire.StateScheduled, "", 0, 30)); !slices.Equal(got, ids) {
			t.Errorf("listed %v", got)
		}
		for _, state := range []wire.State{wire.StateScheduled, wire.StatePending} {
			if got := walkAll(t, b, state, "", 200); len(got) != 9 {
				t.Errorf("walked over %v", got)
			}
		}
		for _, name := range []string{"list_tasks", "list_after", "list_known"} {
			if n := len(recorded.calls[name]); n != 3 {
				t.Errorf("%d calls of %s, want one for each three tasks", n, name)
			}
		}
	})
}

// seedBroken puts a task whose message cannot be read, one without a message, one with the message of another, and IDs without a
// task of the state into every collection.
func seedBroken(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, c := context.Background(), r.Client()
	must(t, c.Set(ctx, "asynq:{q}:t:string", "no task", 0))
	must(t, c.HSet(ctx, "asynq:{q}:t:odd", "state", "no state", "msg", "\xff"))
	for _, state := range wire.States() {
		key, name := "asynq:{q}:"+state.String(), state.String()
		if state == wire.StateAggregating {
			key = "asynq:{q}:g:g"
		}
		must(t, c.HSet(ctx, "asynq:{q}:t:unreadable-"+name, "state", name, "msg", "\xff\xff", "result", "kept", "pending_since", "soon"))
		must(t, c.HSet(ctx, "asynq:{q}:t:empty-"+name, "state", name))
		must(t, c.HSet(ctx, "asynq:{q}:t:other-"+name, "state", name, "msg", redistest.Encode(t, redistest.Message("r", "x"))))
		for _, id := range []string{"missing", "string", "odd", "unreadable-" + name, "empty-" + name, "other-" + name} {
			if state == wire.StatePending || state == wire.StateActive {
				must(t, c.RPush(ctx, key, id))
			} else {
				must(t, c.ZAdd(ctx, key, redis.Z{Score: 1, Member: id}))
			}
		}
	}
	must(t, c.ZAdd(ctx, "asynq:{q}:scheduled", redis.Z{Score: 1e300, Member: "missing2"}))
}

func TestListBrokenTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		b := r.Broker()
		want := seedOrdered(t, r)
		seedBroken(t, r)
		for state, ids := range want {
			name := "-" + state.String()
			wanted := slices.Sorted(slices.Values(append([]string{"unreadable" + name, "empty" + name, "other" + name}, ids...)))
			listed := list(t, b, state, "g", 0, 100)
			if got := slices.Sorted(slices.Values(idsOf(listed))); !slices.Equal(got, wanted) {
				t.Errorf("listed %v, want %v", got, wanted)
			}
			if got := slices.Sorted(slices.Values(walkAll(t, b, state, "", 2))); !slices.Equal(got, wanted) {
				t.Errorf("walked over %v, want %v", got, wanted)
			}
			for _, task := range listed {
				readable := slices.Contains(ids, task.ID) || strings.HasPrefix(task.ID, "other")
				if (task.Message != nil) != readable || strings.HasPrefix(task.ID, "unreadable") && string(task.Result) != "kept" {
					t.Errorf("%+v", task)
				}
			}
		}
		stats, err := b.Stats(context.Background(), "q")
		if err != nil || stats.Sizes[wire.StatePending] != 9 || stats.Oldest.IsZero() {
			t.Errorf("%+v, error %v", stats, err)
		}
		if _, err := b.Memory(context.Background(), "q", stats, 20); err != nil {
			t.Error(err)
		}
	})
}

// A key of another type is named.
func TestListWrongType(t *testing.T) {
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, b := context.Background(), r.Broker()
				key := "asynq:{q}:" + state.String()
				if state == wire.StateAggregating {
					key = "asynq:{q}:g:g"
					must(t, r.Client().SAdd(ctx, "asynq:{q}:groups", "g"))
				}
				must(t, r.Client().Set(ctx, key, "of another type", 0))
				check := func(what string, err error) {
					if !errors.Is(err, rdb.ErrWrongType) || !strings.Contains(err.Error(), key) {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err := b.ListTasks(ctx, "q", state, "g", 0, 10)
				check("list", err)
				walk, err := b.Walk("q", state, "")
				must1(t, err)
				_, _, err = walk.Next(ctx, 10)
				check("walk", err)
				_, err = b.Stats(ctx, "q")
				if state == wire.StateAggregating {
					if !rdb.Refused(err) {
						t.Errorf("stats: %v", err)
					}
					_, err = b.Groups(ctx, "q")
					check("groups", err)
				} else {
					check("stats", err)
				}
			})
		})
	}
}

func must1(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
