package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// moded returns a task of queue q with a lock and a policy. Its payload is its ID.
func moded(t *testing.T, id, lock string, policy rdb.DuplicatePolicy) *rdb.NewTask {
	t.Helper()
	m := redistest.Message("q", id)
	m.Payload, m.UniqueKey = []byte(id), "asynq:{q}:unique:test:"+lock
	return &rdb.NewTask{
		ID: id, Queue: "q", Message: redistest.Encode(t, m), Lock: m.UniqueKey, LockTTL: 60, Mode: &rdb.Mode{Policy: policy},
	}
}

// debounced returns a task with a debounce of 100 s, at most 250 s.
func debounced(t *testing.T, id, lock string) *rdb.NewTask {
	t.Helper()
	n := moded(t, id, lock, rdb.Replace)
	n.Mode.Quiet, n.Mode.MaxWait = 100, 250
	return n
}

// throttled returns a task with a throttle of 100 s.
func throttled(t *testing.T, id string, policy rdb.DuplicatePolicy) *rdb.NewTask {
	t.Helper()
	n := moded(t, id, "throttle", policy)
	n.Mode.Throttle, n.Mode.Window = "asynq:{q}:throttle:k", 100
	return n
}

// wantMode enqueues a task and requires that it stands for a task, "" for none, in a state.
func wantMode(t *testing.T, b *rdb.Broker, n *rdb.NewTask, id string, state wire.State) {
	t.Helper()
	b.Enqueue(context.Background(), n)
	if n.Err != nil || n.Mode.FirstID != id || n.Mode.State != state {
		t.Errorf("task %q stands for %q in state %v, want %q in %v; error %v", n.ID, n.Mode.FirstID, n.Mode.State, id, state, n.Err)
	}
}

// wantPayload requires the payload and the state of a task.
func wantPayload(t *testing.T, r *redistest.Redis, id, payload, state string) *wire.TaskMessage {
	t.Helper()
	f := r.Client().HMGet(context.Background(), "asynq:{q}:t:"+id, "msg", "state").Val()
	text, _ := f[0].(string)
	msg, err := wire.DecodeTaskMessage([]byte(text))
	if err != nil || msg.ID != id || string(msg.Payload) != payload || f[1] != state {
		t.Errorf("task %q is %v: ID %q, payload %q; want %q with payload %q; error %v", id, f[1], msg.ID, msg.Payload, state, payload, err)
	}
	return msg
}

// settled settles the oldest pending task of queue q, and returns its ID.
func settled(t *testing.T, r *redistest.Redis, s rdb.Settlement) {
	t.Helper()
	f := r.Fetch(t, "q", 1)
	s.ID, s.Token = f.Tasks[0].ID, f.Token
	if code := redistest.Settle(t, r.Broker(), s); code != script.CodeOK {
		t.Fatalf("settle: code %d", code)
	}
}

// What each policy makes of a holder in each state.
func TestEnqueueModeOfHolder(t *testing.T) {
	hour := time.Now().Add(time.Hour).Unix()
	later := func(n *rdb.NewTask) *rdb.NewTask { n.ProcessAt = hour; return n }
	grouped := func(n *rdb.NewTask, group string) *rdb.NewTask { n.Group = group; return n }
	holder := func(t *testing.T) *rdb.NewTask { t.Helper(); return moded(t, "a", "l", rdb.Replace) }
	for name, tt := range map[string]struct {
		first  func(t *testing.T, r *redistest.Redis)
		second func(n *rdb.NewTask)
		id     string // of the task that the second call stands for
		state  wire.State
		at     string // collection with a time that the test checks
	}{
		"pending": {func(t *testing.T, r *redistest.Redis) { r.Make(t, holder(t)) }, nil, "a", wire.StatePending, ""},
		"pending, delayed": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, holder(t)) },
			func(n *rdb.NewTask) { n.ProcessAt = hour }, "a", wire.StateScheduled, "scheduled",
		},
		"pending, into a group": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, holder(t)) },
			func(n *rdb.NewTask) { n.Group = "g" }, "a", wire.StateAggregating, "g:g",
		},
		"scheduled, now": {func(t *testing.T, r *redistest.Redis) { r.Make(t, later(holder(t))) }, nil, "a", wire.StatePending, ""},
		"scheduled, later": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, later(holder(t))) },
			func(n *rdb.NewTask) { n.ProcessAt = hour + 60 }, "a", wire.StateScheduled, "scheduled",
		},
		"retry": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, holder(t))
			settled(t, r, rdb.Settlement{Outcome: rdb.Retry, Delay: time.Hour, Message: failedHolder(t)})
		}, nil, "a", wire.StateRetry, "retry"},
		"retry, later": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, holder(t))
			settled(t, r, rdb.Settlement{Outcome: rdb.Retry, Delay: time.Minute, Message: failedHolder(t)})
		}, func(n *rdb.NewTask) { n.ProcessAt = hour }, "a", wire.StateRetry, "retry"},
		"aggregating": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, grouped(holder(t), "g")) },
			func(n *rdb.NewTask) { n.Group = "g" }, "a", wire.StateAggregating, "g:g",
		},
		"aggregating, other group": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, grouped(holder(t), "g")) },
			func(n *rdb.NewTask) { n.Group = "h" }, "a", wire.StateAggregating, "g:h",
		},
		"aggregating, without group": {
			func(t *testing.T, r *redistest.Redis) { r.Make(t, grouped(holder(t), "g")) }, nil, "a", wire.StatePending, "",
		},
		"aggregating, staged": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, grouped(holder(t), "g"))
			stage(t, r.Broker(), rdb.GroupRule{MaxSize: 1})
		}, nil, "b", wire.StatePending, ""},
		"active": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, holder(t))
			r.Fetch(t, "q", 1)
		}, nil, "b", wire.StatePending, ""},
		"archived": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, holder(t))
			settled(t, r, rdb.Settlement{Outcome: rdb.Archive, Message: failedHolder(t)})
		}, nil, "b", wire.StatePending, ""},
		"gone": {func(t *testing.T, r *redistest.Redis) {
			r.Make(t, holder(t))
			settled(t, r, rdb.Settlement{Outcome: rdb.Done, Lock: "asynq:{q}:unique:test:l"})
		}, nil, "b", wire.StatePending, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for policy, repeat := range map[rdb.DuplicatePolicy]bool{rdb.Replace: false, rdb.Supersede: true, rdb.Keep: false} {
				t.Run(fmt.Sprint(policy, repeat), func(t *testing.T) {
					redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
						tt.first(t, r)
						n := moded(t, "b", "l", policy)
						if tt.second != nil {
							tt.second(n)
						}
						ctx, b := context.Background(), r.Broker()
						created := tt.id == "b"
						if policy == rdb.Keep && (!created || name == "active" || name == "aggregating, staged") {
							redistest.Unchanged(t, r, "a kept task", func() { wantMode(t, b, n, "a", 0) })
							return
						}
						if repeat {
							b = redistest.RepeatingBroker(t, r)
						}
						if b.Enqueue(ctx, n); n.Err != nil || n.Mode.FirstID != tt.id || !repeat && n.Mode.State != tt.state {
							t.Fatalf("it stands for %+v, want %q in %v; error %v", n.Mode, tt.id, tt.state, n.Err)
						}
						wantSuperseded := ""
						if policy == rdb.Supersede && name == "active" {
							wantSuperseded = "a"
						}
						if n.Mode.Superseded != wantSuperseded {
							t.Errorf("it supersedes %q, want %q", n.Mode.Superseded, wantSuperseded)
						}
						msg := wantPayload(t, r, tt.id, "b", tt.state.String())
						if tt.state == wire.StateRetry && (msg.Retried != 1 || msg.LastErr != "boom" || msg.LastFailedAt == 0) {
							t.Errorf("a replaced task in retry: %+v", msg)
						}
						if got := r.Client().Get(ctx, n.Lock).Val(); got != tt.id {
							t.Errorf("the lock is held by %q, want %q", got, tt.id)
						}
						if tt.at != "" {
							score := int64(r.Client().ZScore(ctx, "asynq:{q}:"+tt.at, tt.id).Val())
							if want := max(n.ProcessAt, n.Mode.DueAt); want > 0 && score != want {
								t.Errorf("its time is %d, want %d", score, want)
							}
						}
					})
				})
			}
		})
	}
}

func failedHolder(t *testing.T) []byte {
	t.Helper()
	m := redistest.Message("q", "a")
	m.Retried, m.LastErr, m.LastFailedAt = 1, "boom", time.Now().Unix()
	m.UniqueKey = "asynq:{q}:unique:test:l"
	return redistest.Encode(t, m)
}

// A replaced pending task keeps its place, in a short list and in the middle of a long one, from
// which a delay removes it.
func TestEnqueueModeKeepsPlace(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		var many []*rdb.NewTask
		for i := range 900 {
			many = append(many, redistest.NewTask(t, "q", fmt.Sprint("t", i)))
		}
		many[450] = moded(t, "a", "l", rdb.Replace)
		r.Make(t, many[:450]...)
		r.Make(t, many[450])
		r.Make(t, many[451:]...)
		wantMode(t, b, moded(t, "b", "l", rdb.Replace), "a", wire.StatePending)
		if at := r.Client().LPos(context.Background(), "asynq:{q}:pending", "a", redis.LPosArgs{}).Val(); at != 449 {
			t.Errorf("the replaced task is at %d, want 449", at)
		}
		delayed := moded(t, "c", "l", rdb.Replace)
		delayed.ProcessAt = time.Now().Add(time.Hour).Unix()
		wantMode(t, b, delayed, "a", wire.StateScheduled)
		wantPayload(t, r, "a", "c", "scheduled")
		if n := r.Client().LLen(context.Background(), "asynq:{q}:pending").Val(); n != 899 {
			t.Errorf("%d tasks are pending, want 899", n)
		}
	})
}

// The lock of a follower outlives the task that it follows. Further calls replace the follower.
func TestEnqueueModeFollower(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		wantMode(t, b, moded(t, "a", "l", rdb.Replace), "a", wire.StatePending)
		f := r.Fetch(t, "q", 1)
		wantMode(t, b, moded(t, "b", "l", rdb.Replace), "b", wire.StatePending)
		wantMode(t, b, moded(t, "c", "l", rdb.Supersede), "b", wire.StatePending)
		lock := moded(t, "", "l", 0).Lock
		if code := redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Done, Lock: lock}); code != script.CodeOK {
			t.Fatalf("settle: code %d", code)
		}
		wantMode(t, b, moded(t, "d", "l", rdb.Replace), "b", wire.StatePending)
		wantPayload(t, r, "b", "d", "pending")
		settled(t, r, rdb.Settlement{Outcome: rdb.Done, Lock: lock})
		if n := r.Client().Exists(context.Background(), lock).Val(); n != 0 {
			t.Error("the lock is still held")
		}
	})
}

// Rejections: a task with the ID, a lock of another type, a lock that is not that of its holder.
func TestEnqueueModeRejects(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		r.Make(t, redistest.NewTask(t, "q", "taken"))
		redistest.Must(t, r.Client().HSet(ctx, "asynq:{q}:unique:test:hash", "not", "a lock"))
		redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:unique:test:foreign", "taken", time.Hour))
		redistest.Unchanged(t, r, "rejected tasks", func() {
			for lock, want := range map[string]error{"free": script.ErrTaskIDConflict, "hash": script.ErrDuplicateTask, "foreign": script.ErrDuplicateTask} {
				n := moded(t, "taken", lock, rdb.Replace)
				if b.Enqueue(ctx, n); !errors.Is(n.Err, want) {
					t.Errorf("the lock %q: error %v, want %v", lock, n.Err, want)
				}
			}
		})
	})
}

// Tasks of a batch with the same lock replace each other in order, whatever replies are lost.
func TestEnqueueModeInBatch(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		t.Run(fmt.Sprint(repeat), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				b := r.Broker()
				if repeat {
					b = redistest.RepeatingBroker(t, r)
				}
				tasks := make([]*rdb.NewTask, 500)
				for i := range tasks {
					tasks[i] = moded(t, fmt.Sprint("t", i), fmt.Sprint(i%150), rdb.Replace)
				}
				b.Enqueue(context.Background(), tasks...)
				for i, n := range tasks {
					if n.Err != nil || n.Mode.FirstID != fmt.Sprint("t", i%150) {
						t.Fatalf("task %d stands for %q, error %v", i, n.Mode.FirstID, n.Err)
					}
				}
				for i := range 150 {
					last := i + 450
					if last >= 500 {
						last -= 150
					}
					wantPayload(t, r, fmt.Sprint("t", i), fmt.Sprint("t", last), "pending")
				}
			})
		})
	}
}

// A call whose reply was lost gets the same answer again, also if its task is gone by then. A call
// that arrives after the next one of its sender does nothing.
func TestEnqueueModeRecord(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		wantMode(t, b, moded(t, "a\x00ü", "l", rdb.Replace), "a\x00ü", wire.StatePending)
		r.Fetch(t, "q", 1)
		wantMode(t, b, moded(t, "b", "l", rdb.Supersede), "b", wire.StatePending)
		call := recorded.Calls["enqueue_mode"][1]
		repeat := func() []any {
			answer, err := r.Client().Do(ctx, append([]any{"evalsha", call.SHA, len(call.Keys)}, append(call.Keys, call.Args...)...)...).Slice()
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		redistest.Unchanged(t, r, "a repeated call", func() {
			if got := fmt.Sprintf("%q", repeat()); got != `['\x00' "" "" "" "a\x00ü" ""]` {
				t.Errorf("a repeated call returns %s", got)
			}
		})
		settled(t, r, rdb.Settlement{Outcome: rdb.Done, Lock: "asynq:{q}:unique:test:l"})
		redistest.Unchanged(t, r, "a repeated call", func() { repeat() })
		wantMode(t, b, moded(t, "c", "l", rdb.Replace), "c", wire.StatePending)
		redistest.Unchanged(t, r, "a late call", func() {
			if got := repeat(); got[0] != int64(script.CodeStale) {
				t.Errorf("a late call returns %v", got)
			}
		})
	})
}

// A debounce moves with each call until its maximum wait, and keeps its time once it is due.
func TestEnqueueDebounce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, c := context.Background(), r.Broker(), r.Client()
		due := func() int64 { return int64(c.ZScore(ctx, "asynq:{q}:scheduled", "a").Val()) - time.Now().Unix() }
		want := func(id string, seconds int64) {
			t.Helper()
			n := debounced(t, id, "l")
			wantMode(t, b, n, "a", wire.StateScheduled)
			wantPayload(t, r, "a", id, "scheduled")
			if got := due(); got < seconds-30 || got > seconds+1 || n.Mode.DueAt-time.Now().Unix() != got {
				t.Errorf("after %q the task is due in %d s, and the call says %d; want %d s", id, got, n.Mode.DueAt-time.Now().Unix(), seconds)
			}
		}
		want("a", 100)
		shift(t, r, 60)
		want("b", 100)
		shift(t, r, 60)
		want("c", 100)
		shift(t, r, 60)
		want("d", 70) // 250 - 3 * 60
		shift(t, r, 100)
		want("e", -30)
		if due := redistest.Forward(t, b); due.Moved != 1 {
			t.Errorf("forward: %+v", due)
		}
		wantMode(t, b, debounced(t, "f", "l"), "a", wire.StatePending)
		wantPayload(t, r, "a", "f", "pending")
		r.Fetch(t, "q", 1)
		next := debounced(t, "g", "l")
		wantMode(t, b, next, "g", wire.StateScheduled)
		if d := next.Mode.DueAt - time.Now().Unix(); d < 70 || d > 101 {
			t.Errorf("the follower is due in %d s", d)
		}
	})
}

// shift lets time pass for delayed tasks and throttles of queue q.
func shift(t *testing.T, r *redistest.Redis, seconds int64) {
	t.Helper()
	ctx, c := context.Background(), r.Client()
	for _, set := range []string{"scheduled", "retry"} {
		for _, id := range c.ZRange(ctx, "asynq:{q}:"+set, 0, -1).Val() {
			redistest.Must(t, c.ZIncrBy(ctx, "asynq:{q}:"+set, float64(-seconds), id))
		}
	}
	for _, key := range c.Keys(ctx, "asynq:{q}:t:*").Val() {
		if c.HExists(ctx, key, "first_at").Val() {
			redistest.Must(t, c.HIncrBy(ctx, key, "first_at", -seconds))
		}
	}
	for _, key := range c.Keys(ctx, "asynq:{q}:throttle:*").Val() {
		var till int64
		var id string
		if _, err := fmt.Sscanf(c.Get(ctx, key).Val(), "%d %s", &till, &id); err != nil {
			t.Fatal(err)
		}
		redistest.Must(t, c.Set(ctx, key, fmt.Sprintf("%d %s", till-seconds*1000, id), time.Hour))
	}
}

// A throttle creates one task per window, and drops the others.
func TestEnqueueThrottle(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		wantMode(t, b, throttled(t, "a", rdb.Keep), "a", wire.StatePending)
		redistest.Unchanged(t, r, "a call within the window", func() { wantMode(t, b, throttled(t, "b", rdb.Keep), "a", 0) })
		settled(t, r, rdb.Settlement{Outcome: rdb.Done})
		redistest.Unchanged(t, r, "a call within the window", func() { wantMode(t, b, throttled(t, "c", rdb.Keep), "a", 0) })
		shift(t, r, 99)
		wantMode(t, b, throttled(t, "d", rdb.Keep), "a", 0)
		shift(t, r, 2)
		wantMode(t, b, throttled(t, "e", rdb.Keep), "e", wire.StatePending)
	})
}

// A throttle that folds creates a task at once, and one at the end of each window.
func TestEnqueueThrottleFolds(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		in := func(n *rdb.NewTask, seconds int64) {
			t.Helper()
			if d := n.Mode.DueAt - time.Now().Unix(); d < seconds-30 || d > seconds+1 {
				t.Errorf("task %q is due in %d s, want %d", n.ID, d, seconds)
			}
		}
		wantMode(t, b, throttled(t, "a", rdb.Replace), "a", wire.StatePending)
		folded := throttled(t, "b", rdb.Replace)
		wantMode(t, b, folded, "b", wire.StateScheduled)
		in(folded, 100)
		shift(t, r, 50)
		again := throttled(t, "c", rdb.Replace)
		wantMode(t, b, again, "b", wire.StateScheduled)
		in(again, 50)
		wantPayload(t, r, "b", "c", "scheduled")
		wantPayload(t, r, "a", "a", "pending")
		shift(t, r, 60)
		redistest.Forward(t, b)
		wantMode(t, b, throttled(t, "d", rdb.Replace), "b", wire.StatePending)
		r.Fetch(t, "q", 2)
		next := throttled(t, "e", rdb.Replace)
		wantMode(t, b, next, "e", wire.StateScheduled)
		in(next, 90) // the window that b began
		shift(t, r, 300)
		redistest.Forward(t, b)
		settled(t, r, rdb.Settlement{Outcome: rdb.Done, Lock: next.Lock})
		wantMode(t, b, throttled(t, "f", rdb.Replace), "f", wire.StatePending)
	})
}
