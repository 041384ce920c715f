package asynqtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// fakeTB is a test that may fail without consequences.
type fakeTB struct {
	testing.TB // for the other methods

	mu     sync.Mutex
	failed bool
	text   strings.Builder
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.text, format+"\n", args...)
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Logf(format, args...)
	f.failed = true
	runtime.Goexit()
}

func (f *fakeTB) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// failure runs f in a fake test and returns its failure.
func failure(t *testing.T, f func(t testing.TB)) (text string, failed bool) {
	t.Helper()
	fake := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	return fake.text.String(), fake.failed
}

func wantFailure(t *testing.T, f func(t testing.TB), words ...string) {
	t.Helper()
	text, failed := failure(t, f)
	if !failed {
		t.Errorf("it did not fail: %s", text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("the failure does not contain %q:\n%s", w, text)
		}
	}
}

func enqueue(t *testing.T, b *asynqtest.Broker, typename, payload string, opts ...asynq.Option) *asynq.TaskInfo {
	t.Helper()
	info, err := b.Client().Enqueue(asynq.NewTask(typename, []byte(payload)), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func ids(outcomes []asynqtest.Outcome) (ids []string) {
	for _, o := range outcomes {
		ids = append(ids, o.ID)
	}
	return ids
}

func wantIDs(t *testing.T, outcomes []asynqtest.Outcome, want ...string) {
	t.Helper()
	if got := ids(outcomes); !slices.Equal(got, want) {
		t.Errorf("tasks %q ran, want %q", got, want)
	}
}

func succeed(context.Context, *asynq.Task) error { return nil }

var errPlanned = errors.New("planned")

// failing returns a handler that fails the tasks with these IDs.
func failing(ids ...string) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if id, _ := asynq.GetTaskID(ctx); slices.Contains(ids, id) {
			return errPlanned
		}
		return nil
	})
}
