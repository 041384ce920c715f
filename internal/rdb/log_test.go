package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// logged returns the values of a settlement with an entry in the log of its task.
func logged(size, n int) *rdb.Extra {
	a := wire.Attempt{Number: n, Ended: int64(n), Kind: wire.AttemptFailed, Err: fmt.Sprint("error ", n)}
	return &rdb.Extra{Attempt: a.Encode(), Number: n, LogSize: size}
}

// logOf returns the log of a task of queue q.
func logOf(t *testing.T, client redis.UniversalClient, id string) []byte {
	t.Helper()
	fields, err := client.HGetAll(context.Background(), "asynq:{q}:t:"+id).Result()
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	for field, entry := range fields {
		if strings.HasPrefix(field, wire.FieldLog) {
			log = fmt.Appendf(log, "%s\n%s\n", field, entry)
		}
	}
	return log
}

// wantLog checks the entries in the log of task a of queue q.
func wantLog(t *testing.T, client redis.UniversalClient, want ...int64) {
	t.Helper()
	var got []int64
	for _, a := range wire.DecodeAttempts(logOf(t, client, "a")) {
		if got = append(got, a.Ended); a.Err != fmt.Sprint("error ", a.Ended) {
			t.Errorf("entry %+v", a)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has the entries %v, want %v", got, want)
	}
}

// Every outcome that keeps the task adds its entry and its progress, once.
func TestSettleWritesLog(t *testing.T) {
	for name, o := range outcomes(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				seedHeld(t, r)
				s := o.s
				s.ID, s.Token, s.Extra = "a", "f1", logged(3, 1)
				s.Extra.Progress = []byte("half")
				if code := redistest.Settle(t, r.Broker(), s); code != script.CodeOK {
					t.Errorf("code %d", code)
				}
				if s.Deletes() {
					redistest.WantDump(t, r, o.want)
					return
				}
				wantLog(t, r.Client(), 1)
				if progress := r.Client().HGet(context.Background(), "asynq:{q}:t:a", wire.FieldProgress).Val(); progress != "half" {
					t.Errorf("the progress is %q", progress)
				}
				redistest.Unchanged(t, r, "the same call again", func() {
					if code := redistest.Settle(t, r.Broker(), s); code != o.code {
						t.Errorf("the same call again: code %d, want %d", code, o.code)
					}
				})
				redistest.Must(t, r.Client().HDel(context.Background(), "asynq:{q}:t:a", wire.LogField(1), wire.FieldProgress))
				redistest.WantDump(t, r, o.want)
			})
		})
	}
}

// The log keeps the newest entries. Servers with a smaller size than before remove one entry for
// each that they add.
func TestLogIsTrimmed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		r.Make(t, redistest.NewTask(t, "q", "a"))
		want := [][]int64{{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {1, 2, 3, 4}, {1, 2, 4, 5}, {1, 2, 5, 6}}
		for n, size := range []int{3, 3, 3, 3, 100, 2, 2} {
			f := r.Fetch(t, "q", 1)
			redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Retry, Extra: logged(size, n)})
			wantLog(t, r.Client(), want[n]...)
		}
		for _, outcome := range []rdb.Outcome{rdb.Requeue, rdb.Retry} { // without an entry, the log stays
			f := r.Fetch(t, "q", 1)
			redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: outcome})
			wantLog(t, r.Client(), 1, 2, 5, 6)
		}
		msg := redistest.Encode(t, redistest.Message("q", "a"))
		for _, n := range []int{101, 102} { // they take the places of older ones
			f := r.Fetch(t, "q", 1)
			redistest.Settle(t, b, rdb.Settlement{ID: "a", Token: f.Token, Outcome: rdb.Retry, Message: msg, Extra: logged(100, n)})
		}
		wantLog(t, r.Client(), 5, 6, 101, 102)
	})
}

// In a call for many tasks, each has its own values.
func TestSettleWritesLogsOfMany(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		ids := r.Enqueue(t, "q", 40)
		f := r.Fetch(t, "q", 40)
		var batch []*rdb.Settlement
		for i, id := range ids {
			s := &rdb.Settlement{Queue: "q", ID: id, Token: f.Token, Outcome: rdb.Retry, Delay: time.Minute}
			switch i % 4 {
			case 0:
				s.Extra = logged(5, i)
			case 1:
				s.Extra = &rdb.Extra{Progress: []byte(id)}
			case 2:
				s.Result = []byte(id)
			}
			batch = append(batch, s)
		}
		r.Broker().RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
		for i, id := range ids {
			want, field := make([]any, 3), wire.LogField(0) // log, progress, result
			switch i % 4 {
			case 0:
				want[0] = string(logged(5, i).Attempt)
				field = wire.LogField(i)
			case 1:
				want[1] = id
			case 2:
				want[2] = id
			}
			if got := r.Client().HMGet(ctx, "asynq:{q}:t:"+id, field, wire.FieldProgress, wire.FieldResult).Val(); !slices.Equal(got, want) {
				t.Errorf("task %d: %q, want %q", i, got, want)
			}
		}
	})
}

// A log is bounded in bytes, however often the task fails and whatever the errors are.
func TestLogIsBounded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		const tasks, size = 20, 20
		rounds := 500 // 10,000 retries
		if r.IsMini() {
			rounds = 3 * size // its interpreter is slow
		}
		r.Enqueue(t, "q", tasks)
		for n := range rounds {
			a := wire.Attempt{
				Number: n, Started: 1e12, Ended: 1e12, Kind: wire.AttemptFailed, Server: "host:1", Err: strings.Repeat("\x00\n", 10_000),
			}
			f := r.Fetch(t, "q", tasks)
			var batch []*rdb.Settlement
			for _, task := range f.Tasks {
				batch = append(batch, &rdb.Settlement{
					Queue: "q", ID: task.ID, Token: f.Token, Outcome: rdb.Retry,
					Extra: &rdb.Extra{Attempt: a.Encode(), Number: n, LogSize: size},
				})
			}
			b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
			for _, s := range batch {
				if s.Err != nil || s.Code != script.CodeOK {
					t.Fatalf("code %d, error %v", s.Code, s.Err)
				}
			}
		}
		log := logOf(t, r.Client(), "t1")
		all := wire.DecodeAttempts(log)
		if len(all) != size || all[0].Number != rounds-size || len(log) > size*(wire.MaxAttemptErr+200) {
			t.Errorf("after %d retries the log has %d entries and %d bytes", rounds, len(all), len(log))
		}
	})
}

// A recovery adds an entry, too.
func TestRecoverWritesLog(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), redistest.RepeatingBroker(t, r)
		r.Make(t, redistest.NewTask(t, "q", "a"))
		for i := range 3 {
			f := r.Fetch(t, "q", 1)
			redistest.ExpireLeases(t, r, time.Minute, "a")
			item := &rdb.Settlement{Queue: "q", ID: "a", Token: f.Token, Outcome: rdb.Requeue, Failed: true, Extra: logged(2, i)}
			if b.Recover(ctx, []*rdb.Settlement{item}); item.Err != nil || item.Code.Err() != nil {
				t.Fatalf("code %d, error %v", item.Code, item.Err)
			}
		}
		wantLog(t, r.Client(), 1, 2)
	})
}

// Progress is written only for the attempt that holds the task.
func TestWriteProgress(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), redistest.RepeatingBroker(t, r)
		seedHeld(t, r)
		write := func(id, token, text string) *rdb.ResultWrite {
			return &rdb.ResultWrite{Queue: "q", ID: id, Token: token, Result: []byte(text)}
		}
		redistest.Unchanged(t, r, "progress of others", func() {
			writes := []*rdb.ResultWrite{write("a", "f", "x"), write("a", "", "x"), write("b", "", "x"), write("none", "f1", "x")}
			b.WriteProgress(ctx, writes)
			for i, want := range []script.Code{script.CodeLost, script.CodeLost, script.CodeLost, script.CodeGone} {
				if w := writes[i]; w.Err != nil || w.Code != want {
					t.Errorf("write %d: code %d, want %d, error %v", i, w.Code, want, w.Err)
				}
			}
		})
		w := write("a", "f1", "third")
		if b.WriteProgress(ctx, []*rdb.ResultWrite{w}); w.Err != nil || w.Code != script.CodeOK {
			t.Errorf("code %d, error %v", w.Code, w.Err)
		}
		got := r.Client().HMGet(ctx, "asynq:{q}:t:a", wire.FieldProgress, wire.FieldResult).Val()
		if !slices.Equal(got, []any{"third", "half"}) {
			t.Errorf("progress and result are %q", got)
		}
	})
}
