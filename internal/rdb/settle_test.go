package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// outcomes are all ways to end an attempt, with what Redis holds afterwards: of a task a that has a lock and a result, next to a
// task b that waits.
func outcomes(t *testing.T) map[string]struct {
	s    rdb.Settlement
	want string
	code rdb.Code // of the same call again
} {
	const always = `
		asynq:queues = {q}
		Q:marker = [1] ttl 1m0s
		Q:t:b = {msg:test(payload) pending_since:now state:pending}
	`
	const counted = `
		Q:processed = 1
		Q:processed:today = 1 ttl 2160h0m0s
	`
	const failed = counted + `
		Q:failed = 1
		Q:failed:today = 1 ttl 2160h0m0s
	`
	const waits = always + `
		Q:pending = [b]
	`
	const locked = `
		Q:unique:test:x = a ttl 1m0s
	`
	const lock = " unique_key:asynq:{q}:unique:test:x"
	const boom = " retried=1 error=boom failed_at=now"
	as := func(message, state, key string) string {
		return fmt.Sprintf("\nQ:t:a = {msg:test(payload%s) result:half settled:f1 state:%s%s}\n", message, state, key)
	}
	msg := message(t, "a")
	return map[string]struct {
		s    rdb.Settlement
		want string
		code rdb.Code
	}{
		"done": {rdb.Settlement{Outcome: rdb.Done}, waits + counted, rdb.CodeGone},
		"complete": {rdb.Settlement{Outcome: rdb.Complete, Message: msg, Retention: 3600},
			waits + counted + "Q:completed = {a:now+1h0m0s}" + as(boom, "completed", ""), rdb.CodeAlready},
		"complete with a result": {rdb.Settlement{Outcome: rdb.Complete, Message: msg, Retention: 3600, Result: []byte("whole")},
			waits + counted + "Q:completed = {a:now+1h0m0s}" + strings.Replace(as(boom, "completed", ""), "half", "whole", 1), rdb.CodeAlready},
		"retry": {rdb.Settlement{Outcome: rdb.Retry, Message: msg, Delay: time.Minute, Failed: true},
			waits + failed + locked + "Q:retry = {a:now+1m0s}" + as(boom, "retry", lock), rdb.CodeAlready},
		"retry that does not count": {rdb.Settlement{Outcome: rdb.Retry, Message: msg, Delay: time.Minute},
			waits + locked + "Q:retry = {a:now+1m0s}" + as(boom, "retry", lock), rdb.CodeAlready},
		"retry with the message as it is": {rdb.Settlement{Outcome: rdb.Retry, Delay: time.Minute},
			waits + locked + "Q:retry = {a:now+1m0s}" + as("", "retry", lock), rdb.CodeAlready},
		"archive": {rdb.Settlement{Outcome: rdb.Archive, Message: msg, Failed: true},
			waits + failed + locked + "Q:archived = {a:now}" + as(boom, "archived", lock), rdb.CodeAlready},
		"archive that does not count": {rdb.Settlement{Outcome: rdb.Archive, Message: msg},
			waits + locked + "Q:archived = {a:now}" + as(boom, "archived", lock), rdb.CodeAlready},
		"archive with the message as it is": {rdb.Settlement{Outcome: rdb.Archive},
			waits + locked + "Q:archived = {a:now}" + as("", "archived", lock), rdb.CodeAlready},
		"requeue": {rdb.Settlement{Outcome: rdb.Requeue}, always + locked + `
			Q:pending = [b a]
			Q:t:a = {msg:test(payload) pending_since:now result:half settled:f1 state:pending` + lock + `}`, rdb.CodeAlready},
	}
}

// seedHeld makes task a, active under the token f1 with a lock and a result, and task b, pending.
func seedHeld(t *testing.T, r *redistest.Redis) {
	t.Helper()
	r.Make(t, lock(redistest.NewTask(t, "q", "a"), "x"), redistest.NewTask(t, "q", "b"))
	r.Fetch(t, "q", 1)
	if err := r.Broker().WriteResult(context.Background(), "q", "a", "f1", []byte("half")); err != nil {
		t.Fatal(err)
	}
}

func TestSettle(t *testing.T) {
	for name, o := range outcomes(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				b := r.Broker()
				seedHeld(t, r)
				s := o.s
				s.ID = "a"
				unchanged(t, r, "a settlement by another token", func() {
					for _, token := range []string{"", "f", "f11"} {
						s.Token = token
						if code := settle(t, b, s); code != rdb.CodeLost {
							t.Errorf("token %q: code %d", token, code)
						}
					}
				})
				s.Token = "f1"
				if code := settle(t, b, s); code != rdb.CodeOK {
					t.Errorf("code %d", code)
				}
				wantDump(t, r, o.want)
				unchanged(t, r, "the same call again", func() {
					if code := settle(t, b, s); code != o.code {
						t.Errorf("the same call again: code %d, want %d", code, o.code)
					}
				})
				unchanged(t, r, "every other outcome of the settled attempt", func() {
					for other, o2 := range outcomes(t) {
						late := o2.s
						late.ID, late.Token = "a", "f1"
						if code := settle(t, b, late); code != o.code {
							t.Errorf("%s afterwards: code %d, want %d", other, code, o.code)
						}
					}
				})
			})
		})
	}
}

func TestSettleOfMissingTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		must(t, r.Client().Set(context.Background(), "asynq:{q}:t:string", "no task", 0))
		for name, o := range outcomes(t) {
			for _, id := range []string{"missing", "string"} {
				o.s.ID, o.s.Token = id, "f1"
				unchanged(t, r, name, func() {
					if code := settle(t, r.Broker(), o.s); code != rdb.CodeGone {
						t.Errorf("%s of %s: code %d", name, id, code)
					}
				})
			}
		}
	})
}

// A task with a lock that meanwhile expired and was taken by another task leaves that one's lock alone.
func TestSettleLeavesLockOfAnother(t *testing.T) {
	for _, outcome := range []rdb.Outcome{rdb.Done, rdb.Complete} {
		t.Run(outcome.String(), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				seedHeld(t, r)
				must(t, r.Client().Del(ctx, "asynq:{q}:unique:test:x"))
				r.Make(t, lock(redistest.NewTask(t, "q", "c"), "x"))
				settle(t, r.Broker(), rdb.Settlement{ID: "a", Token: "f1", Outcome: outcome, Retention: 60})
				if holder := r.Client().Get(ctx, "asynq:{q}:unique:test:x").Val(); holder != "c" {
					t.Errorf("the lock is held by %q", holder)
				}
			})
		})
	}
}

// Settlements of many tasks, outcomes and queues in one turn are answered each for itself.
func TestSettleMixedBatch(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		const n = 1100
		made := r.Enqueue(t, "q", n)
		r.Make(t, redistest.NewTask(t, "r", "other"))
		other := r.Fetch(t, "r", 1)
		var tokens []string
		for _, part := range []int{500, 500, 100} {
			f := r.Fetch(t, "q", part)
			tokens = append(tokens, slices.Repeat([]string{f.Token}, part)...)
		}
		var batch []*rdb.Settlement
		for i, id := range made {
			s := &rdb.Settlement{Queue: "q", ID: id, Token: tokens[i], Outcome: rdb.Done}
			switch {
			case i%10 == 3:
				s.Token = "wrong"
			case i%10 == 5:
				s.Outcome, s.Message, s.Failed, s.Delay = rdb.Retry, message(t, id), true, time.Minute
			case i%10 == 7:
				s.Outcome = rdb.Requeue
			}
			batch = append(batch, s)
		}
		batch = append(batch, &rdb.Settlement{Queue: "r", ID: "other", Token: other.Token, Outcome: rdb.Done})
		b.Turn(ctx, &rdb.Turn{Settle: batch})
		for i, s := range batch {
			want := rdb.CodeOK
			if s.Token == "wrong" {
				want = rdb.CodeLost
			}
			if s.Err != nil || s.Code != want {
				t.Fatalf("settlement %d: code %d, want %d, error %v", i, s.Code, want, s.Err)
			}
		}
		client := r.Client()
		counts := map[string][2]int64{
			"active":    {client.LLen(ctx, "asynq:{q}:active").Val(), n / 10},
			"lease":     {client.ZCard(ctx, "asynq:{q}:lease").Val(), n / 10},
			"retry":     {client.ZCard(ctx, "asynq:{q}:retry").Val(), n / 10},
			"pending":   {client.LLen(ctx, "asynq:{q}:pending").Val(), n / 10},
			"processed": {client.IncrBy(ctx, "asynq:{q}:processed", 0).Val(), n * 8 / 10},
			"failed":    {client.IncrBy(ctx, "asynq:{q}:failed", 0).Val(), n / 10},
		}
		for name, c := range counts {
			if c[0] != c[1] {
				t.Errorf("%s: %d, want %d", name, c[0], c[1])
			}
		}
	})
}

// Requeued tasks come back in the order in which the settlements stand, the last one first.
func TestSettleRequeueOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 3)
		var batch []*rdb.Settlement
		for _, task := range slices.Backward(f.Tasks) {
			batch = append(batch, &rdb.Settlement{Queue: "q", ID: task.ID, Token: f.Token, Outcome: rdb.Requeue})
		}
		r.Broker().Turn(context.Background(), &rdb.Turn{Settle: batch})
		if f := r.Fetch(t, "q", 4); !slices.Equal(ids(f), []string{"t1", "t2", "t3", "t4"}) {
			t.Errorf("fetched %v", ids(f))
		}
	})
}

// A retry must never come before its delay is over, so it is due at a whole second that is not sooner.
func TestSettleRetryIsNotSooner(t *testing.T) {
	r := redistest.Mini(t)
	r.Enqueue(t, "q", 4)
	f := r.Fetch(t, "q", 4)
	for i, tt := range []struct {
		micros int64
		delay  time.Duration
		want   int64
	}{
		{0, time.Minute, 60}, {1, time.Minute, 61}, {998_000, time.Millisecond, 1}, {999_999, 2 * time.Millisecond, 2},
	} {
		r.SetTime(time.Unix(1_800_000_000, tt.micros*1000))
		settle(t, r.Broker(), rdb.Settlement{ID: f.Tasks[i].ID, Token: f.Token, Outcome: rdb.Retry, Delay: tt.delay})
		score := r.Client().ZScore(context.Background(), "asynq:{q}:retry", f.Tasks[i].ID).Val()
		if got := int64(score) - 1_800_000_000; got != tt.want {
			t.Errorf("%d µs and %v: due at second %d, want %d", tt.micros, tt.delay, got, tt.want)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	for o, want := range map[rdb.Outcome]string{rdb.Done: "done", rdb.Complete: "complete", rdb.Retry: "retry",
		rdb.Archive: "archive", rdb.Requeue: "requeue"} {
		if o.String() != want {
			t.Errorf("%d is %q, want %q", int(o), o, want)
		}
	}
}
