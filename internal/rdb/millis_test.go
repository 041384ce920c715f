package rdb_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// exactBroker returns a broker that stores times to the millisecond.
func exactBroker(r *redistest.Redis) *rdb.Broker {
	b := r.Broker()
	b.MillisecondTimes = true
	return b
}

// micros returns the score of a task in a collection of queue q, in unix microseconds.
func micros(t *testing.T, client redis.UniversalClient, collection, id string) int64 {
	t.Helper()
	score, err := client.ZScore(context.Background(), "asynq:{q}:"+collection, id).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int64(score*1e6 + 0.5)
}

// Every call that creates tasks stores the time to the millisecond, if the broker does.
func TestMillisecondsOfNewTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, at := context.Background(), time.Now().Unix()+3600
		for name, b := range map[string]*rdb.Broker{"seconds": r.Broker(), "exact": exactBroker(r)} {
			for early, ms := range map[uint16]int64{0: 0, 1: 1, 877: 877, 999: 999} {
				if name == "seconds" {
					ms = 0
				}
				id := fmt.Sprint(name, early)
				created := func(kind string) *rdb.NewTask {
					task := redistest.NewTask(t, "q", id+kind)
					task.ProcessAt, task.Early = at, early
					return task
				}
				keyed := created("keyed")
				keyed.Mode = &rdb.Mode{Key: id, TTL: 3600}
				tick := created("tick")
				tick.Tick = &rdb.Tick{Entry: id, At: 1000, Deadline: soon()}
				member := redistest.NewTask(t, "q", id+"member")
				member.Group = "g"
				r.Make(t, member)
				combined := created("combined")
				if code := commit(t, b, stage(t, b, atOnce)[0], combined); code != script.CodeOK {
					t.Errorf("commit: code %d", code)
				}
				for _, task := range []*rdb.NewTask{combined, created(""), keyed, tick} {
					if b.Enqueue(ctx, task); task.Err != nil && task != combined {
						t.Fatal(task.Err)
					}
					if got := micros(t, r.Client(), "scheduled", task.ID) - at*1e6; got != -ms*1000 {
						t.Errorf("%s is due %d µs after the second, want %d", task.ID, got, -ms*1000)
					}
				}
			}
		}
	})
}

// The time of a retry is rounded up to milliseconds, so that it is never before the delay has
// passed.
func TestMillisecondRetryIsNotSooner(t *testing.T) {
	r := redistest.Mini(t)
	r.Enqueue(t, "q", 7)
	f := r.Fetch(t, "q", 7)
	const second = 1_800_000_000
	for i, tt := range []struct {
		micros int64
		delay  time.Duration
		want   int64 // milliseconds
	}{
		{0, time.Minute, 60_000}, {1, time.Minute, 60_001}, {998_000, time.Millisecond, 999}, {999_999, 2 * time.Millisecond, 1002},
		{998_001, time.Millisecond, 1000}, {500_000, time.Nanosecond, 501}, {123_456, 1<<63 - 1, 9_223_372_036_855 + 124},
	} {
		r.SetTime(time.Unix(second, tt.micros*1000))
		redistest.Settle(t, exactBroker(r), rdb.Settlement{ID: f.Tasks[i].ID, Token: f.Token, Outcome: rdb.Retry, Delay: tt.delay})
		if got := micros(t, r.Client(), "retry", f.Tasks[i].ID) - second*1e6; got/1000 != tt.want || tt.want < 1e6 && got%1000 != 0 {
			t.Errorf("%d µs and %v: due after %d µs, want %d ms", tt.micros, tt.delay, got, tt.want)
		}
	}
}

// On every Redis, a retry is due between its delay and a millisecond more.
func TestMillisecondRetry(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), exactBroker(r)
		ids := r.Enqueue(t, "q", 3)
		f := r.Fetch(t, "q", 3)
		var batch []*rdb.Settlement
		for i, outcome := range []rdb.Outcome{rdb.Retry, rdb.Defer, rdb.Archive} {
			batch = append(batch, &rdb.Settlement{Queue: "q", ID: ids[i], Token: f.Token, Outcome: outcome, Delay: 12_345 * time.Millisecond})
		}
		before := r.Client().Time(ctx).Val()
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
		after := r.Client().Time(ctx).Val()
		for i, s := range batch[:2] {
			if s.Err != nil || s.Code != script.CodeOK {
				t.Fatalf("code %d, error %v", s.Code, s.Err)
			}
			at := time.UnixMicro(micros(t, r.Client(), "retry", ids[i]))
			if earliest, latest := before.Add(s.Delay), after.Add(s.Delay+time.Millisecond); at.Before(earliest) || at.After(latest) || at.UnixMicro()%1000 != 0 {
				t.Errorf("%v: due at %v, want from %v to %v", s.Outcome, at, earliest, latest)
			}
		}
	})
}

// Tasks move when their millisecond has come, and not before. Next is the time until the next one,
// rounded up.
func TestForwardMilliseconds(t *testing.T) {
	r := redistest.Mini(t)
	b, client := exactBroker(r), r.Client()
	const second = 1_800_000_000
	r.SetTime(time.Unix(second, 0))
	r.Enqueue(t, "q", 1)
	f := r.Fetch(t, "q", 1)
	redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Retry, Delay: 123 * time.Millisecond})
	for i, early := range []uint16{877, 876, 0} { // in 123, 124 and 1000 ms
		task := redistest.NewTask(t, "q", "s"+strconv.Itoa(i))
		task.ProcessAt, task.Early = second+1, early
		if b.Enqueue(context.Background(), task); task.Err != nil {
			t.Fatal(task.Err)
		}
	}
	for _, step := range []struct {
		micros int64
		moved  int
		next   int64 // milliseconds
	}{
		{0, 0, 123}, {1, 0, 123}, {1000, 0, 122}, {122_000, 0, 1}, {122_999, 0, 1}, {123_000, 2, 1}, {123_001, 0, 1}, {124_000, 1, 876},
		{999_999, 0, 1}, {1_000_000, 1, -1},
	} {
		r.SetTime(time.Unix(second, step.micros*1000))
		due := b.Forward(context.Background(), []string{"q"}, nil)[0]
		want := rdb.Due{Queue: "q", Moved: step.moved, Next: time.Duration(step.next) * time.Millisecond}
		if step.next < 0 {
			want.Next = -1
		}
		if due.Next < 0 {
			due.Next = -1
		}
		if due != want {
			t.Errorf("at %d µs: %+v, want %+v", step.micros, due, want)
		}
	}
	if n := client.LLen(context.Background(), "asynq:{q}:pending").Val(); n != 4 {
		t.Errorf("%d tasks are pending", n)
	}
}
