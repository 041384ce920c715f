package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

var errTask = errors.New("task failed")

// decideOutcome returns an attempt after its handler returned err.
func decideOutcome(r *rig, msg wire.TaskMessage, err error) *Attempt {
	msg.ID, msg.Queue, msg.Type = "id", "q", "test"
	a := &Attempt{Message: &msg, Queue: "q", Retried: msg.Retried}
	r.fetcher.decideOutcome(a, err)
	return a
}

// written returns the message that is written back to Redis.
func written(t *testing.T, a *Attempt) *wire.TaskMessage {
	t.Helper()
	msg, err := wire.DecodeTaskMessage(a.settlement.Message)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestOutcomeOfSuccess(t *testing.T) {
	synctestRun(t, func(t *testing.T) {
		r := oneQueue(t, 1)
		s := decideOutcome(r, wire.TaskMessage{}, nil).settlement
		if s.Outcome != rdb.Done || s.Message != nil {
			t.Errorf("without retention: %+v", s)
		}
		a := decideOutcome(r, wire.TaskMessage{Retention: 60}, nil)
		s = a.settlement
		if s.Outcome != rdb.Complete || s.Retention != 60 {
			t.Errorf("with retention: %+v", s)
		}
		if got := written(t, a).CompletedAt; got != time.Now().Unix() {
			t.Errorf("completed at %d", got)
		}
	})
}

func TestOutcomeOfErrors(t *testing.T) {
	const (
		retried = 1
		delay   = time.Minute // the result of the rig's RetryDelay
	)
	wish := &RetryError{After: 5 * time.Second}
	snooze := &RetryError{After: 7 * time.Second, Snooze: true}
	harmless := errors.New("harmless")
	for _, c := range []struct {
		name     string
		err      error
		maxRetry int

		outcome rdb.Outcome
		delay   time.Duration
		retried int
	}{
		{"an error", errTask, 3, rdb.Retry, delay, 2},
		{"the last attempt", errTask, 1, rdb.Archive, 0, 1},
		{"more attempts than allowed", errTask, 0, rdb.Archive, 0, 1},
		{"skip", ErrSkipRetry, 3, rdb.Archive, 0, 1},
		{"skip, wrapped", fmt.Errorf("bad input: %w", ErrSkipRetry), 3, rdb.Archive, 0, 1},
		{"skip, joined", errors.Join(errTask, ErrSkipRetry), 3, rdb.Archive, 0, 1},
		{"skip without a failure", errors.Join(harmless, ErrSkipRetry), 3, rdb.Archive, 0, 1},
		{"a delay", wish, 3, rdb.Retry, 5 * time.Second, 2},
		{"a delay, wrapped", fmt.Errorf("busy: %w", wish), 3, rdb.Retry, 5 * time.Second, 2},
		{"a negative delay", &RetryError{After: -time.Hour}, 3, rdb.Retry, 0, 2},
		{"a delay at the last attempt", wish, 1, rdb.Archive, 0, 1},
		{"snooze", snooze, 3, rdb.Defer, 7 * time.Second, 1},
		{"snooze, wrapped", fmt.Errorf("busy: %w", snooze), 3, rdb.Defer, 7 * time.Second, 1},
		{"snooze at the last attempt", snooze, 1, rdb.Defer, 7 * time.Second, 1},
		{"skip of a snoozed task", errors.Join(snooze, ErrSkipRetry), 3, rdb.Archive, 0, 1},
		{"no failure", harmless, 3, rdb.Defer, delay, 1},
		{"no failure, at the last attempt", harmless, 1, rdb.Defer, delay, 1},
		{"a panic", &PanicError{Value: "text"}, 3, rdb.Retry, delay, 2},
		{"a panic with skip", &PanicError{Value: ErrSkipRetry}, 3, rdb.Retry, delay, 2},
		{"a panic with revoke", &PanicError{Value: ErrRevokeTask}, 3, rdb.Retry, delay, 2},
		{"a panic with a delay", &PanicError{Value: &RetryError{After: time.Hour}}, 3, rdb.Retry, delay, 2},
		{"a panic with an error", &PanicError{Value: io.EOF}, 1, rdb.Archive, 0, 1},
		{"a canceled context", context.Canceled, 3, rdb.Retry, delay, 2},
	} {
		synctestRun(t, func(t *testing.T) {
			r := oneQueue(t, 1)
			r.cfg.IsFailure = func(err error) bool { return !errors.Is(err, harmless) }
			calls := 0
			r.cfg.OnError = func(context.Context, *Attempt, error) { calls++ }
			a := decideOutcome(r, wire.TaskMessage{Retried: retried, MaxRetry: c.maxRetry}, c.err)
			s, msg := a.settlement, written(t, a)
			if s.Outcome != c.outcome || s.Delay != c.delay {
				t.Errorf("%s: %v, delay %v", c.name, s.Outcome, s.Delay)
			}
			if msg.Retried != c.retried || msg.LastErr != c.err.Error() || msg.LastFailedAt != time.Now().Unix() {
				t.Errorf("%s: retried %d, last error %q at %d", c.name, msg.Retried, msg.LastErr, msg.LastFailedAt)
			}
			want := 1
			if strings.HasPrefix(c.name, "snooze") {
				want = 0
			}
			if calls != want {
				t.Errorf("%s: the ErrorHandler was called %d times", c.name, calls)
			}
			if a.Retried != retried {
				t.Errorf("%s: user code sees %d failed attempts before this one", c.name, a.Retried)
			}
		})
	}
}

func TestOutcomeOfRevoked(t *testing.T) {
	r := oneQueue(t, 1)
	for _, err := range []error{ErrRevokeTask, fmt.Errorf("not wanted: %w", ErrRevokeTask), errors.Join(ErrSkipRetry, ErrRevokeTask)} {
		for _, retention := range []int64{0, 60} {
			s := decideOutcome(r, wire.TaskMessage{Retention: retention, MaxRetry: 3}, err).settlement
			if s.Outcome != rdb.Revoke || s.Message != nil {
				t.Errorf("%v: %+v", err, s)
			}
		}
	}
}

// If a task was canceled with an outcome of archive or delete, no error causes another attempt.
func TestOutcomeOfCanceled(t *testing.T) {
	snooze := &RetryError{After: time.Second, Snooze: true}
	for _, c := range []struct {
		err             error
		archive, delete rdb.Outcome
	}{
		{nil, rdb.Done, rdb.Done},
		{ErrRevokeTask, rdb.Revoke, rdb.Revoke},
		{context.Canceled, rdb.Archive, rdb.Discard},
		{errTask, rdb.Archive, rdb.Discard},
		{ErrSkipRetry, rdb.Archive, rdb.Discard},
		{snooze, rdb.Archive, rdb.Discard},
		{&PanicError{Value: "text"}, rdb.Archive, rdb.Discard},
	} {
		for outcome, want := range map[wire.CancelOutcome]rdb.Outcome{wire.CancelArchive: c.archive, wire.CancelDelete: c.delete} {
			a := &Attempt{Message: &wire.TaskMessage{ID: "id", Queue: "q", Type: "test", MaxRetry: 3}, Queue: "q"}
			a.cancelOutcome.Store(int32(outcome))
			r := oneQueue(t, 1)
			r.cfg.IsFailure = func(error) bool { return false }
			r.fetcher.decideOutcome(a, c.err)
			if got := a.settlement.Outcome; got != want {
				t.Errorf("outcome %d, %v: %v, want %v", outcome, c.err, got, want)
			}
			if a.Message.Retried != 0 {
				t.Errorf("outcome %d, %v: %d retries", outcome, c.err, a.Message.Retried)
			}
		}
	}
}

func TestErrorTextIsMadeValid(t *testing.T) {
	a := decideOutcome(oneQueue(t, 1), wire.TaskMessage{MaxRetry: 3}, errors.New("caf\xe9 \xff\xfe au lait"))
	if got := written(t, a).LastErr; got != "caf\uFFFD \uFFFD au lait" || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
}

func TestMessageThatCannotBeEncoded(t *testing.T) {
	r := oneQueue(t, 1)
	a := decideOutcome(r, wire.TaskMessage{MaxRetry: 3, LastErr: "", Group: "\xff"}, errTask)
	if s := a.settlement; s.Outcome != rdb.Archive || s.Message != nil {
		t.Errorf("got %+v", s)
	}
	r.mustLog(1, "message not encoded", "task=id")
}

func TestPanicsAreLogged(t *testing.T) {
	r := oneQueue(t, 1)
	panicked := &PanicError{Value: io.EOF, Stack: []byte("the stack")}
	if !errors.Is(panicked, io.EOF) || panicked.Error() != "panic: EOF" {
		t.Errorf("got %v", panicked)
	}
	decideOutcome(r, wire.TaskMessage{}, panicked)
	r.mustLog(1, "handler panicked", "task=id", "EOF", "the stack")
	decideOutcome(r, wire.TaskMessage{}, fmt.Errorf("a recovered panic: %w", panicked))
	r.mustLog(1, "handler panicked")
}

func TestErrorsAreReported(t *testing.T) {
	r := oneQueue(t, 1)
	var got []error
	r.cfg.OnError = func(ctx context.Context, a *Attempt, err error) {
		if FromContext(ctx) != a || a.Message.ID != "id" || ctx.Err() != nil {
			t.Errorf("context %v of %v", ctx, FromContext(ctx))
		}
		if a.Message.Retried != 1 || a.Message.LastErr != "" {
			t.Errorf("the message was changed already: %+v", a.Message)
		}
		got = append(got, err)
	}
	decideOutcome(r, wire.TaskMessage{}, nil)
	decideOutcome(r, wire.TaskMessage{Retried: 1, MaxRetry: 3}, errTask)
	decideOutcome(r, wire.TaskMessage{Retried: 1, MaxRetry: 3}, ErrRevokeTask)
	if len(got) != 2 || got[0] != errTask || got[1] != ErrRevokeTask { //nolint:errorlint // Exactly these.
		t.Errorf("reported %v", got)
	}
}

func TestCallbacksThatPanic(t *testing.T) {
	r := oneQueue(t, 1)
	for _, crash := range []func(){func() { panic("no good") }, func() { panic(io.EOF) }} {
		before := r.log.count("callback panicked")
		r.cfg.OnError = func(context.Context, *Attempt, error) { crash() }
		r.cfg.IsFailure = func(error) bool { crash(); return false }
		r.cfg.RetryDelay = func(*Attempt, error) time.Duration { crash(); return 0 }
		s := decideOutcome(r, wire.TaskMessage{MaxRetry: 3}, errTask).settlement
		if s.Outcome != rdb.Retry || s.Delay != fallbackDelay {
			t.Errorf("got %+v", s)
		}
		r.mustLog(before+3, "callback panicked")
		for _, callback := range []string{"ErrorHandler", "IsFailure", "RetryDelayFunc"} {
			if r.log.count("callback panicked", "callback="+callback, "settle_test.go") == 0 {
				t.Errorf("%s: not logged with its stack", callback)
			}
		}
	}
	r.cfg.RetryDelay = func(*Attempt, error) time.Duration { return -time.Hour }
	if d := decideOutcome(r, wire.TaskMessage{MaxRetry: 3}, errTask).settlement.Delay; d != 0 {
		t.Errorf("a negative delay became %v", d)
	}
}

func TestErrorTexts(t *testing.T) {
	for err, want := range map[error]string{
		&RetryError{After: time.Minute}:               "asynq: retry after 1m0s",
		&RetryError{After: time.Minute, Snooze: true}: "asynq: task snoozed for 1m0s",
		&PanicError{}:            "panic: runtime.Goexit was called",
		&PanicError{Value: "no"}: "panic: no",
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// rudeError has methods that panic, except for the polite one.
type rudeError struct{ polite string }

func (e rudeError) Error() string {
	if e.polite != "Error" {
		panic("no text")
	}
	return "rude"
}

func (e rudeError) Is(error) bool { panic("no comparison") }

func TestErrorsWhoseMethodsPanic(t *testing.T) {
	for _, err := range []error{rudeError{}, rudeError{polite: "Error"}, (*nilError)(nil)} {
		r := oneQueue(t, 1)
		a := decideOutcome(r, wire.TaskMessage{Retried: 1, MaxRetry: 3}, err)
		s, msg := a.settlement, written(t, a)
		if s.Outcome != rdb.Retry || msg.Retried != 2 || !strings.Contains(msg.LastErr, fmt.Sprintf("%T", err)) {
			t.Errorf("got %+v with %+v", s, msg)
		}
		r.mustLog(1, "callback panicked", "task=id", "the handler's error")
	}
}
