package doctor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/x/doctor"
)

// one starts one task of each partition at a time.
var one = rdb.Partitions{Limits: "concurrency=1"}

// hold enqueues two tasks of partition a and two of b, and starts a1 and b1. The others are held.
func hold(t *testing.T, r *redistest.Redis) {
	t.Helper()
	for _, id := range []string{"a1", "a2", "b1", "b2"} {
		m := redistest.Message("q", id)
		m.SetPartitionKey(id[:1])
		r.Make(t, &rdb.NewTask{ID: id, Queue: "q", Message: redistest.Encode(t, m)})
	}
	if ids := start(t, r); !slices.Equal(ids, []string{"a1", "b1"}) {
		t.Fatalf("%v started", ids)
	}
}

// start fetches once, and returns the IDs of the started tasks in order.
func start(t *testing.T, r *redistest.Redis, ended ...rdb.Ended) []string {
	t.Helper()
	f := redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 10, Partitions: &one, Ended: ended})
	if f.Err != nil || f.Code != script.CodeOK {
		t.Fatalf("code %d, error %v", f.Code, f.Err)
	}
	ids := redistest.IDs(f)
	slices.Sort(ids)
	return ids
}

// end settles tasks, and returns them for the next fetch.
func end(t *testing.T, r *redistest.Redis, ids ...string) (ended []rdb.Ended) {
	t.Helper()
	for _, id := range ids {
		s := &rdb.Settlement{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done}
		r.Broker().RoundTrip(context.Background(), &rdb.RoundTrip{Settle: []*rdb.Settlement{s}})
		if s.Err != nil || s.Code != script.CodeOK {
			t.Fatalf("task %s: code %d, error %v", id, s.Code, s.Err)
		}
		ended = append(ended, rdb.Ended{Partition: id[:1], ID: id})
	}
	return ended
}

// Broken places of held tasks are found and repaired, and all tasks then run.
func TestDiagnosePartitions(t *testing.T) {
	const p = "asynq:{q}:"
	type redisCommand []any
	for _, tt := range []struct {
		name  string
		plant []redisCommand
		want  []string
	}{
		{"nothing", nil, []string{}},
		{"no places", []redisCommand{{"DEL", p + "partitions:held"}}, []string{"missing-place partitions:held a2", "missing-place partitions:held b2"}},
		{
			"places without tasks",
			[]redisCommand{{"ZADD", p + "partitions:held", 0, "a\x000000000000000001x", 0, "a\x000000000000000001a1", 0, "c\x000000000000000001a2"}},
			[]string{"missing-partition partitions:ready", "stale-place partitions:held a1", "stale-place partitions:held a2", "stale-place partitions:held x"},
		},
		{
			"deleted by a library that knows no places", []redisCommand{{"ZREM", p + "scheduled", "a2"}, {"DEL", p + "t:a2"}},
			[]string{"stale-place partitions:held a2"},
		},
		{
			"run by a library that knows no places",
			[]redisCommand{{"ZREM", p + "scheduled", "a2"}, {"HSET", p + "t:a2", "state", "pending"}, {"LPUSH", p + "pending", "a2"}},
			[]string{"stale-place partitions:held a2"},
		},
		{"partitions that nobody serves", []redisCommand{{"DEL", p + "partitions:blocked"}}, []string{
			"missing-partition partitions:ready", "missing-partition partitions:ready",
		}},
		{"not in scheduled", []redisCommand{{"ZREM", p + "scheduled", "a2", "b2"}}, []string{"orphan-task t:a2 a2", "orphan-task t:b2 b2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				hold(t, r)
				for _, c := range tt.plant {
					redistest.Must(t, r.Client().Do(ctx, c...))
				}
				redistest.Unchanged(t, r, "a look", func() {
					if diff := cmp.Diff(tt.want, diagnose(t, r.Broker(), doctor.Options{})); diff != "" {
						t.Errorf("a look finds (-want +got):\n%s", diff)
					}
				})
				if diff := cmp.Diff(tt.want, diagnose(t, r.Broker(), doctor.Options{Repair: true})); diff != "" {
					t.Errorf("the repair tells (-want +got):\n%s", diff)
				}
				if got := diagnose(t, r.Broker(), doctor.Options{}); len(got) > 0 {
					t.Errorf("after the repair: %q", got)
				}

				want := []string{"a2", "b2"}
				if r.Client().Exists(ctx, p+"t:a2").Val() == 0 {
					want = want[1:]
				}
				redistest.Forward(t, r.Broker())
				var got []string
				for ended := end(t, r, "a1", "b1"); ; ended = nil {
					started := start(t, r, ended...)
					got = append(got, started...)
					if len(started) == 0 {
						break
					}
					end(t, r, started...)
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("after the repair %v started, want %v", got, want)
				}
			})
		})
	}
}

// A held task whose message cannot be read is archived. Its place goes with it, at the latest when
// a server reaches it.
func TestDiagnoseUnreadableHeldTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		hold(t, r)
		redistest.Must(t, r.Client().HSet(ctx, "asynq:{q}:t:a2", "msg", "\xff"))
		if got := diagnose(t, r.Broker(), doctor.Options{Repair: true}); !slices.Equal(got, []string{"unreadable-message t:a2 a2"}) {
			t.Errorf("found %q", got)
		}
		if got := r.Client().HGet(ctx, "asynq:{q}:t:a2", "state").Val(); got != "archived" {
			t.Errorf("it is %q", got)
		}
		ended := end(t, r, "a1", "b1")
		if got := start(t, r, ended...); !slices.Equal(got, []string{"b2"}) {
			t.Errorf("%v started", got)
		}
		if n := r.Client().ZCard(ctx, "asynq:{q}:partitions:held").Val(); n != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}

// While servers fetch, settle and hold tasks, a diagnosis finds nothing.
func TestDiagnoseBusyPartitions(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			var ended []rdb.Ended
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := string(rune('a'+n%3)) + time.Now().Format("150405.000000000")
				m := redistest.Message("q", id)
				m.SetPartitionKey(id[:1])
				r.Make(t, &rdb.NewTask{ID: id, Queue: "q", Message: redistest.Encode(t, m)})
				if n%2 == 0 {
					ended = end(t, r, start(t, r, ended...)...)
				}
			}
		}()
		for range 20 {
			if got := diagnose(t, r.Broker(), doctor.Options{}); len(got) > 0 {
				t.Errorf("found %q", got)
			}
		}
		close(stop)
		<-done
	})
}
