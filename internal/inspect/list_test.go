package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// idsOf returns the IDs of tasks, in their order.
func idsOf(tasks []*inspect.TaskInfo) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}

// list lists tasks of queue q. An error ends the test.
func list(t *testing.T, b *rdb.Broker, state wire.State, group string, offset, limit int) []*inspect.TaskInfo {
	t.Helper()
	tasks, err := inspect.New(b).ListTasks(context.Background(), "q", state, group, offset, limit, true)
	if err != nil {
		t.Fatalf("listing %v tasks: %v", state, err)
	}
	return tasks
}

// seedOrdered creates three tasks in each state and returns their IDs in the order in which they
// must be listed. It sets the scores, so that the times differ.
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
			redistest.Settle(t, b, rdb.Settlement{ID: task.ID, Token: f.Token, Outcome: o.outcome, Message: redistest.FailedMessage(t, task.ID), Retention: 3600, Delay: time.Hour})
			score := float64(now.Add(time.Duration(o.step*i)*time.Minute + time.Hour).Unix())
			redistest.Must(t, r.Client().ZAdd(ctx, "asynq:{q}:"+o.key, redis.Z{Score: score, Member: task.ID}))
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
		in := inspect.New(b)
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
				// Completed tasks have no such time: completion does not change the message.
				if since := !task.Since.IsZero(); since == (state == wire.StateActive || state == wire.StateCompleted) {
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
			oldest, err := in.ListTasks(context.Background(), "q", state, "g", 0, 30, false)
			redistest.NoError(t, err)
			if newest := state == wire.StateArchived || state == wire.StateCompleted; newest {
				slices.Reverse(oldest)
			}
			if got := idsOf(oldest); !slices.Equal(got, want) {
				t.Errorf("%v, oldest first: %v, want %v", state, got, want)
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
		if _, err := in.ListTasks(context.Background(), "q", 99, "", 0, 1, false); err == nil {
			t.Error("no error for a state that is none")
		}
		redistest.ExpireLeases(t, r, time.Hour, "active1")
		for i, task := range list(t, b, wire.StateActive, "", 0, 5) {
			if task.Orphaned != (i == 1) {
				t.Errorf("%s is orphaned: %v", task.ID, task.Orphaned)
			}
		}
	})
}

// A page of any size is assembled from short calls, which return a bounded number of bytes.
func TestListTasksInParts(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := redistest.RecordingBroker(t, r)
		ids := r.Enqueue(t, "q", 450)
		if got := idsOf(list(t, b, wire.StatePending, "", 0, 1000)); !slices.Equal(got, ids) {
			t.Errorf("listed %d of %d, or in another order", len(got), len(ids))
		}
		if n := len(recorded.Calls["list"]); n != 3 {
			t.Errorf("%d calls", n)
		}
		if got := idsOf(list(t, b, wire.StatePending, "", 149, 201)); !slices.Equal(got, ids[149:350]) {
			t.Errorf("listed %d, or in another order", len(got))
		}
	})
}

func TestListLargeTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b, recorded := redistest.RecordingBroker(t, r)
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
			if got := walkAll(t, b, state, "", 200, false); len(got) != 9 {
				t.Errorf("walked over %v", got)
			}
		}
		for name, want := range map[string]int{"list": 6, "read_tasks": 3} {
			if n := len(recorded.Calls[name]); n != want {
				t.Errorf("%d calls of %s, want %d: one for each three tasks", n, name, want)
			}
		}
	})
}

// seedBroken adds to every collection a task with an unreadable message, one without a message, one
// with the message of another task, and IDs without a task of the state.
func seedBroken(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, c := context.Background(), r.Client()
	redistest.Must(t, c.Set(ctx, "asynq:{q}:t:string", "no task", 0))
	redistest.Must(t, c.HSet(ctx, "asynq:{q}:t:odd", "state", "no state", "msg", "\xff"))
	for _, state := range wire.States() {
		key, name := "asynq:{q}:"+state.String(), state.String()
		if state == wire.StateAggregating {
			key = "asynq:{q}:g:g"
		}
		redistest.Must(t, c.HSet(ctx, "asynq:{q}:t:unreadable-"+name, "state", name, "msg", "\xff\xff", "result", "kept", "pending_since", "soon"))
		redistest.Must(t, c.HSet(ctx, "asynq:{q}:t:empty-"+name, "state", name))
		redistest.Must(t, c.HSet(ctx, "asynq:{q}:t:other-"+name, "state", name, "msg", redistest.Encode(t, redistest.Message("r", "x"))))
		for _, id := range []string{"missing", "string", "odd", "unreadable-" + name, "empty-" + name, "other-" + name} {
			if state == wire.StatePending || state == wire.StateActive {
				redistest.Must(t, c.RPush(ctx, key, id))
			} else {
				redistest.Must(t, c.ZAdd(ctx, key, redis.Z{Score: 1, Member: id}))
			}
		}
	}
	redistest.Must(t, c.ZAdd(ctx, "asynq:{q}:scheduled", redis.Z{Score: 1e300, Member: "missing2"}))
}

func TestListBrokenTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		b := r.Broker()
		in := inspect.New(b)
		want := seedOrdered(t, r)
		seedBroken(t, r)
		for state, ids := range want {
			name := "-" + state.String()
			wanted := slices.Sorted(slices.Values(append([]string{"unreadable" + name, "empty" + name, "other" + name}, ids...)))
			listed := list(t, b, state, "g", 0, 100)
			if got := slices.Sorted(slices.Values(idsOf(listed))); !slices.Equal(got, wanted) {
				t.Errorf("listed %v, want %v", got, wanted)
			}
			if got := slices.Sorted(slices.Values(walkAll(t, b, state, "", 2, false))); !slices.Equal(got, wanted) {
				t.Errorf("walked over %v, want %v", got, wanted)
			}
			for _, task := range listed {
				readable := slices.Contains(ids, task.ID) || strings.HasPrefix(task.ID, "other")
				if (task.Message != nil) != readable || strings.HasPrefix(task.ID, "unreadable") && string(task.Result) != "kept" {
					t.Errorf("%+v", task)
				}
			}
		}
		stats, err := statsOf(in)
		if err != nil || stats.Sizes[wire.StatePending] != 9 || stats.Oldest.IsZero() {
			t.Errorf("%+v, error %v", stats, err)
		}
		if _, err := memoryOf(in, "q", stats, 20); err != nil {
			t.Error(err)
		}
	})
}

// The error names the key of a wrong type.
func TestListWrongType(t *testing.T) {
	for _, state := range wire.States() {
		t.Run(state.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				r.AllowViolations()
				ctx, b := context.Background(), r.Broker()
				in := inspect.New(b)
				key := "asynq:{q}:" + state.String()
				if state == wire.StateAggregating {
					key = "asynq:{q}:g:g"
					redistest.Must(t, r.Client().SAdd(ctx, "asynq:{q}:groups", "g"))
				}
				redistest.Must(t, r.Client().Set(ctx, key, "of another type", 0))
				check := func(what string, err error) {
					if !errors.Is(err, inspect.ErrWrongType) || !strings.Contains(err.Error(), key) {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err := in.ListTasks(ctx, "q", state, "g", 0, 10, false)
				check("list", err)
				walk, err := in.Walk("q", state, "", false, nil)
				redistest.NoError(t, err)
				_, _, err = walk.Next(ctx, 10)
				check("walk", err)
				_, err = statsOf(in)
				if state == wire.StateAggregating {
					if !script.Refused(err) {
						t.Errorf("stats: %v", err)
					}
					_, err = in.Groups(ctx, "q")
					check("groups", err)
				} else {
					check("stats", err)
				}
			})
		})
	}
}
