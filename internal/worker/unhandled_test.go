package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

var errNotFound = fmt.Errorf("middleware: %w", ErrHandlerNotFound)

// A task without a handler is returned again and again without using up an attempt, and archived
// when the time is over. The clock of Redis decides.
func TestUnhandledTasksAreReturned(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		r.skew = -48 * time.Hour
		r.cfg.UnhandledFor = time.Hour
		r.handle = func(context.Context, *Attempt) error { return errNotFound }
		reported := 0
		r.cfg.OnError = func(_ context.Context, _ *Attempt, err error) {
			if reported++; !errors.Is(err, ErrHandlerNotFound) {
				t.Errorf("reported %v", err)
			}
		}
		r.addMessage("q", &wire.TaskMessage{Type: "new", ID: "a", Queue: "q", MaxRetry: 2, Retried: 1, Headers: map[string]string{"k": "v"}})
		time.Sleep(900 * time.Millisecond) // no whole second
		began, attempts, longest := time.Now(), 0, time.Duration(0)
		for {
			r.markNonEmpty("q")
			r.drainWork()
			state, msg := r.state("q", "a")
			if msg.Retried != 1 || msg.LastErr != errNotFound.Error() || msg.LastFailedAt != time.Now().Unix() || msg.Headers["k"] != "v" {
				t.Fatalf("message %+v", msg)
			}
			if state == "archived" {
				if msg.Ext() != "" {
					t.Errorf("the message keeps %q", msg.Ext())
				}
				break
			}
			if got, want := msg.Ext().Get(wire.ExtUnhandledSince), fmt.Sprint(began.Add(r.skew+time.Second-1).Unix()); got != want {
				t.Fatalf("unhandled since %s, want %s", got, want)
			}
			if attempts++; attempts > 200 || reported > 0 {
				t.Fatalf("%d attempts, %d reported", attempts, reported)
			}
			wait := r.queues["q"].tasks["a"].due.Sub(time.Now().Add(r.skew))
			if wait < minUnhandledDelay*7/8 && time.Since(began) < 59*time.Minute {
				t.Errorf("next attempt in %v", wait)
			}
			longest = max(longest, wait)
			time.Sleep(wait)
		}
		if waited := time.Since(began); waited < time.Hour || waited > time.Hour+time.Second {
			t.Errorf("archived after %v", waited)
		}
		if attempts < 60 || attempts > 80 || longest > maxUnhandledDelay*9/8 {
			t.Errorf("%d attempts, up to %v apart", attempts, longest)
		}
		if reported != 1 {
			t.Errorf("the ErrorHandler was called %d times, want once, when the task was archived", reported)
		}
		if n := r.log.count("no handler for its type", "type=new"); n < 30 || n > 60 {
			t.Errorf("%d log lines, want at most one in a minute", n)
		}
		r.mustBeFree()
	})
}

func TestOutcomeOfUnhandled(t *testing.T) {
	for name, c := range map[string]struct {
		unhandledFor time.Duration
		err          error
		cancel       wire.CancelOutcome
		want         rdb.Outcome
	}{
		"returned":                   {time.Hour, errNotFound, wire.CancelRetry, rdb.Defer},
		"not configured":             {0, errNotFound, wire.CancelRetry, rdb.Retry},
		"another error":              {time.Hour, errTask, wire.CancelRetry, rdb.Retry},
		"a panic":                    {time.Hour, &PanicError{Value: errNotFound}, wire.CancelRetry, rdb.Retry},
		"canceled and archived":      {time.Hour, errNotFound, wire.CancelArchive, rdb.Archive},
		"canceled and deleted":       {time.Hour, errNotFound, wire.CancelDelete, rdb.Discard},
		"skipped by the middleware":  {time.Hour, errors.Join(errNotFound, ErrSkipRetry), wire.CancelRetry, rdb.Archive},
		"revoked by the middleware":  {time.Hour, errors.Join(errNotFound, ErrRevokeTask), wire.CancelRetry, rdb.Revoke},
		"snoozed by the middleware":  {time.Hour, errors.Join(errNotFound, &RetryError{Snooze: true}), wire.CancelRetry, rdb.Defer},
		"with a delay of the middle": {time.Hour, errors.Join(errNotFound, &RetryError{}), wire.CancelRetry, rdb.Retry},
	} {
		r := oneQueue(t, 1)
		r.cfg.UnhandledFor = c.unhandledFor
		a := &Attempt{Message: &wire.TaskMessage{ID: "id", Queue: "q", Type: "test", MaxRetry: 3}, Queue: "q"}
		a.cancelOutcome.Store(int32(c.cancel))
		r.fetcher.decideOutcome(a, c.err)
		if a.settlement.Outcome != c.want {
			t.Errorf("%s: %v, want %v", name, a.settlement.Outcome, c.want)
		}
		if returned := a.Message.Ext() != ""; returned != (name == "returned") {
			t.Errorf("%s: the message has %q", name, a.Message.Ext())
		}
	}
}

// A task that was returned has a handler in the end. Its message forgets the time before.
func TestHandledTaskForgetsUnhandledTime(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		for _, err := range []error{nil, errTask, ErrSkipRetry} {
			msg := wire.TaskMessage{Retention: 60, MaxRetry: 1}
			msg.SetExt("x=1;unhandled_since=1;y=2")
			if got := written(t, decideOutcome(r, msg, err)).Ext(); got != "x=1;y=2" {
				t.Errorf("after %v: the message has %q", err, got)
			}
		}
	})
}

func TestTypeLog(t *testing.T) {
	var l typeLog
	now := time.Now()
	if !l.allow("a", now) || l.allow("a", now.Add(59*time.Second)) || !l.allow("b", now) || !l.allow("a", now.Add(time.Minute)) {
		t.Error("more or less than one line per type and minute")
	}
	for i := range 3 * maxTypes {
		l.allow(fmt.Sprint(i), now)
	}
	if n := len(l.logged); n > maxTypes {
		t.Errorf("remembers %d types", n)
	}
}
