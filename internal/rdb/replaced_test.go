package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// testLock is the lock of moded(t, id, "l", policy).
const testLock = "asynq:{q}:unique:test:l"

// leavesActive are all ways in which an active task returns to a waiting state, by the state.
func leavesActive() map[string]func(t *testing.T, r *redistest.Redis, b *rdb.Broker, token string) wire.State {
	settles := func(s rdb.Settlement, state wire.State) func(*testing.T, *redistest.Redis, *rdb.Broker, string) wire.State {
		return func(t *testing.T, _ *redistest.Redis, b *rdb.Broker, token string) wire.State {
			t.Helper()
			s := s
			if s.Outcome != rdb.Requeue {
				s.Message = failedHolder(t)
			}
			s.ID, s.Token = "a", token
			redistest.Settle(t, b, s)
			return state
		}
	}
	return map[string]func(*testing.T, *redistest.Redis, *rdb.Broker, string) wire.State{
		"retry":          settles(rdb.Settlement{Outcome: rdb.Retry, Delay: time.Hour}, wire.StateRetry),
		"retry at once":  settles(rdb.Settlement{Outcome: rdb.Retry}, wire.StatePending),
		"retry in order": settles(rdb.Settlement{Outcome: rdb.Retry, MaxActive: rdb.InOrder}, wire.StatePending),
		"defer":          settles(rdb.Settlement{Outcome: rdb.Defer, Delay: time.Hour}, wire.StateRetry),
		"requeue":        settles(rdb.Settlement{Outcome: rdb.Requeue}, wire.StatePending),
		"retry with milliseconds": func(t *testing.T, r *redistest.Redis, b *rdb.Broker, token string) wire.State {
			t.Helper()
			b.MillisecondTimes = true
			return settles(rdb.Settlement{Outcome: rdb.Retry, Delay: time.Hour}, wire.StateRetry)(t, r, b, token)
		},
		"recovery": func(t *testing.T, r *redistest.Redis, b *rdb.Broker, token string) wire.State {
			t.Helper()
			redistest.Must(t, r.Client().ZAdd(context.Background(), "asynq:{q}:lease", redis.Z{Score: 1, Member: "a"}))
			item := &rdb.Settlement{Queue: "q", ID: "a", Token: token, Outcome: rdb.Requeue, Failed: true, Lock: testLock}
			if b.Recover(context.Background(), []*rdb.Settlement{item}); item.Err != nil {
				t.Error(item.Err)
			}
			return wire.StatePending
		},
		"reclaim": func(t *testing.T, _ *redistest.Redis, b *rdb.Broker, token string) wire.State {
			t.Helper()
			redistest.Reclaim(t, b, token)
			return wire.StatePending
		},
	}
}

// A task whose lock a follower has taken over never waits beside it: it is deleted if the follower
// waits or is active, whichever calls are repeated. If the follower has ended, it waits, and has
// its lock again for as long as it would have had it.
func TestReplacedTaskIsDeleted(t *testing.T) {
	for name, leave := range leavesActive() {
		for _, follower := range []string{"pending", "scheduled", "active", "retry", "archived", "completed", "gone"} {
			t.Run(name+"/"+follower, func(t *testing.T) {
				redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
					ctx, b, c := context.Background(), redistest.RepeatingBroker(t, r), r.Client()
					r.Make(t, moded(t, "a", "l", rdb.Replace))
					token := r.Fetch(t, "q", 1).Token
					lives := follow(t, r, follower)
					processed := c.Get(ctx, "asynq:{q}:processed").Val()
					state := leave(t, r, b, token)
					if name == "requeue" || name == "reclaim" || name == "defer" {
						if got := c.Get(ctx, "asynq:{q}:processed").Val(); got != processed {
							t.Errorf("%s attempts are processed, %s before", got, processed)
						}
					} else if got := c.Get(ctx, "asynq:{q}:failed").Val(); got != map[bool]string{false: "1", true: "2"}[follower == "archived" || follower == "retry"] {
						t.Errorf("%s attempts have failed", got)
					}
					holder := c.Get(ctx, testLock).Val()
					if lives {
						if n := c.Exists(ctx, "asynq:{q}:t:a").Val(); n != 0 || holder != "b" {
							t.Errorf("%d of the replaced tasks exist, want 0; %q has the lock, want b", n, holder)
						}
						return
					}
					ttl := c.PTTL(ctx, testLock).Val()
					if got := c.HGet(ctx, "asynq:{q}:t:a", "state").Val(); got != state.String() || holder != "a" || ttl <= 0 || ttl > time.Minute {
						t.Errorf("the task is %q, want %v; %q has the lock for %v", got, state, holder, ttl)
					}
					if c.HExists(ctx, "asynq:{q}:t:a", "followed").Val() {
						t.Error("the task still counts as followed")
					}
				})
			})
		}
	}
}

// follow creates task b, which follows a, and moves it to a state. It reports whether it waits or
// is active.
func follow(t *testing.T, r *redistest.Redis, state string) bool {
	t.Helper()
	n := moded(t, "b", "l", rdb.Replace)
	if state == "scheduled" {
		n.ProcessAt = time.Now().Add(time.Hour).Unix()
	}
	if r.Broker().Enqueue(context.Background(), n); n.Err != nil || n.Mode.FirstID != "b" {
		t.Fatalf("the follower is %+v, error %v", n.Mode, n.Err)
	}
	switch state {
	case "pending", "scheduled":
	case "active":
		r.Fetch(t, "q", 1)
	case "retry":
		settled(t, r, rdb.Settlement{Outcome: rdb.Retry, Delay: time.Hour})
	case "archived":
		settled(t, r, rdb.Settlement{Outcome: rdb.Archive})
		return false
	case "completed":
		settled(t, r, rdb.Settlement{Outcome: rdb.Complete, Retention: 60, Lock: testLock})
		return false
	case "gone":
		settled(t, r, rdb.Settlement{Outcome: rdb.Done, Lock: testLock})
		return false
	}
	return true
}

// Of two tasks that leave their lock to others, which have ended, one waits.
func TestReplacedTasksOfOneCall(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		var items []*rdb.Settlement
		for _, id := range []string{"a", "b", "c"} {
			r.Make(t, moded(t, id, "l", rdb.Replace))
			items = append(items, &rdb.Settlement{Queue: "q", ID: id, Token: r.Fetch(t, "q", 1).Token, Outcome: rdb.Requeue, Lock: testLock})
		}
		redistest.Settle(t, b, rdb.Settlement{ID: "c", Token: items[2].Token, Outcome: rdb.Done})
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: items[:2]})
		pending := r.Client().LRange(ctx, "asynq:{q}:pending", 0, -1).Val()
		if len(pending) != 1 || r.Client().Get(ctx, testLock).Val() != pending[0] {
			t.Errorf("pending are %q, want one task, the holder of the lock", pending)
		}
	})
}

// An archived task does not count as followed any more, so it is retried like any other if it is
// run again. The lock of a follower that is not its own, or of another type, is left alone.
func TestReplacedTaskIsArchived(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, c := context.Background(), r.Broker(), r.Client()
		r.Make(t, moded(t, "a", "l", rdb.Replace))
		token := r.Fetch(t, "q", 1).Token
		follow(t, r, "pending")
		if !c.HExists(ctx, "asynq:{q}:t:a", "followed").Val() {
			t.Error("the task does not count as followed")
		}
		redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: token, Outcome: rdb.Archive})
		if f := c.HMGet(ctx, "asynq:{q}:t:a", "state", "followed").Val(); f[0] != "archived" || f[1] != nil {
			t.Errorf("state and followed are %v", f)
		}
	})
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, c := context.Background(), r.Client()
		r.Make(t, moded(t, "a", "l", rdb.Replace))
		token := r.Fetch(t, "q", 1).Token
		follow(t, r, "pending")
		redistest.Must(t, c.Del(ctx, testLock))
		redistest.Must(t, c.HSet(ctx, testLock, "not", "a lock"))
		if code := redistest.Settle(t, r.Broker(), rdb.Settlement{ID: "a", Token: token, Outcome: rdb.Requeue}); code != script.CodeOK {
			t.Errorf("code %d", code)
		}
		if got := c.HGet(ctx, "asynq:{q}:t:a", "state").Val(); got != "pending" {
			t.Errorf("the task is %q", got)
		}
	})
}

// A staged task that has a follower does not return to its group beside it.
func TestReplacedTaskInGroup(t *testing.T) {
	for _, follower := range []string{"pending", "gone"} {
		t.Run(follower, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b, c := context.Background(), r.Broker(), r.Client()
				a, other := moded(t, "a", "l", rdb.Replace), redistest.NewTask(t, "q", "other")
				a.Group, other.Group = "g", "g"
				r.Make(t, a)
				r.Make(t, other)
				sets := stage(t, b, rdb.GroupRule{MaxSize: 2})
				lives := follow(t, r, follower)
				if err := b.ReturnToGroup(ctx, "q", sets); err != nil {
					t.Fatal(err)
				}
				want, holder := []string{"a", "other"}, "a"
				if lives {
					want, holder = []string{"other"}, "b"
				}
				group := c.ZRange(ctx, "asynq:{q}:g:g", 0, -1).Val()
				if len(group) != len(want) || c.Exists(ctx, "asynq:{q}:t:a").Val() != int64(len(want)-1) || c.Get(ctx, testLock).Val() != holder {
					t.Errorf("the group has %q, want %q", group, want)
				}
				if c.HExists(ctx, "asynq:{q}:t:a", "followed").Val() {
					t.Error("the task still counts as followed")
				}
			})
		})
	}
}
