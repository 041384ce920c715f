package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// wantAttempts checks TaskInfo.Attempts, of which the errors are given.
func wantAttempts(env *testenv.Env, id string, want ...string) []asynq.AttemptInfo {
	env.T.Helper()
	info, err := env.Inspector().GetTaskInfo("default", id)
	env.NoError(err)
	var got []string
	for _, a := range info.Attempts {
		got = append(got, string(a.Kind)+": "+a.Err)
		if now := time.Now().Add(time.Millisecond); a.Ended.After(now) || a.Ended.Before(a.Started) || a.Duration() > testenv.Timeout {
			env.T.Errorf("an attempt from %v to %v, at %v", a.Started, a.Ended, now)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		env.T.Errorf("the attempts of %s are %q, want %q", id, got, want)
	}
	return info.Attempts
}

func TestAttemptLog(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var n atomic.Int64
		handler := func(_ context.Context, task *asynq.Task) error {
			if n.Add(1); task.Type() == "panics" {
				panic("no good")
			}
			return fmt.Errorf("failure %d", n.Load())
		}
		cfg := asynq.Config{
			Concurrency: 1, AttemptLog: 3, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		}
		env.Serve(cfg, handler)
		env.Enqueue("often", asynq.MaxRetry(4))
		env.AwaitState("often", "archived")
		last := wantAttempts(env, "often", "failed: failure 3", "failed: failure 4", "failed: failure 5")[2]
		if host, _ := os.Hostname(); last.Server != fmt.Sprintf("%s:%d", host, os.Getpid()) {
			t.Errorf("the server is %q", last.Server)
		}
		env.NoError(env.Inspector().RunTask("default", "often")) // the log stays
		env.Eventually(func() bool { return n.Load() == 6 && env.State("often") == "archived" }, "another attempt")
		wantAttempts(env, "often", "failed: failure 4", "failed: failure 5", "failed: failure 6")
		env.Enqueue("panics", asynq.MaxRetry(0))
		env.AwaitState("panics", "archived")
		wantAttempts(env, "panics", "panicked: panic: no good")
		env.NoError(env.Inspector().DeleteTask("default", "often"))
		env.AwaitState("often", "")
	})
}

// Without the option, no log is kept.
func TestNoAttemptLog(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return errors.New("failed") })
		env.Enqueue("a")
		env.AwaitState("a", "retry")
		wantAttempts(env, "a")
		if fields := env.RDB.HKeys(env.Context(), env.Queue.Task("a")).Val(); len(fields) != 3 {
			t.Errorf("the task has the fields %v", fields)
		}
	})
}

// The attempt of a crashed server is logged by the server that recovers the task.
func TestAttemptLogOfCrash(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("a", asynq.MaxRetry(1))
		env.FetchAndCrash(1)
		env.Serve(asynq.Config{AttemptLog: 1000, LeaseDuration: time.Second}, func(context.Context, *asynq.Task) error {
			return errors.New("failed")
		})
		env.AwaitState("a", "archived")
		crash := wantAttempts(env, "a", "lease_expired: "+asynq.ErrLeaseExpired.Error(), "failed: failed")[0]
		if !crash.Started.IsZero() || crash.Duration() != 0 || crash.Server != "" {
			t.Errorf("the attempt of the crashed server is %+v", crash)
		}
	})
}

func TestAttemptLogOfReceiver(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		receiver := env.Receiver(asynq.ReceiverConfig{AttemptLog: 5})
		env.Enqueue("a")
		leases, err := receiver.ReceiveAs(env.Context(), "worker 7", 1)
		env.NoError(err)
		env.NoError(leases[0].Fail(env.Context(), errors.New("failed elsewhere")))
		if a := wantAttempts(env, "a", "failed: failed elsewhere")[0]; a.Server != "worker 7" {
			t.Errorf("the server is %q", a.Server)
		}
	})
}

// wantProgress waits until TaskInfo.Progress of the task a has this fraction and note.
func wantProgress(env *testenv.Env, fraction float64, note string) {
	env.T.Helper()
	env.Eventually(func() bool {
		info, err := env.Inspector().GetTaskInfo("default", "a")
		env.NoError(err)
		p := info.Progress
		return p != nil && p.Fraction == fraction && p.Note == note && time.Since(p.At).Abs() < testenv.Timeout
	}, "the progress %v %q", fraction, note)
}

func TestSetProgress(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		step := make(chan struct{})
		env.Serve(asynq.Config{Concurrency: 1}, func(ctx context.Context, _ *asynq.Task) error {
			for _, invalid := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1), math.Inf(-1)} {
				if err := asynq.SetProgress(ctx, invalid, ""); err == nil || !strings.Contains(err.Error(), "must be from 0 to 1") {
					t.Errorf("%v: error %v", invalid, err)
				}
			}
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			env.NoError(asynq.SetProgress(derived, 0.25, "first"))
			<-step
			for i := range 100 {
				env.NoError(asynq.SetProgress(ctx, 0.5, fmt.Sprint("row ", i)))
			}
			<-step
			env.NoError(asynq.SetProgress(ctx, 0.75, strings.Repeat("ü", 200)))
			<-step
			return errors.New("failed")
		})
		env.Enqueue("a")
		wantProgress(env, 0.25, "first")
		step <- struct{}{}
		wantProgress(env, 0.5, "row 99")
		step <- struct{}{}
		step <- struct{}{}
		env.AwaitState("a", "retry")
		wantProgress(env, 0.75, strings.Repeat("ü", 128))
	})
}

func TestSetProgressOfLostTask(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		result := make(chan error)
		env.Serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			env.StealLease("a")
			env.NoError(asynq.SetProgress(ctx, 0.5, ""))
			<-ctx.Done()
			result <- asynq.SetProgress(ctx, 0.6, "")
			return nil
		})
		env.Enqueue("a")
		if err := testenv.Await(env, result, "the context to end"); !errors.Is(err, asynq.ErrLeaseExpired) {
			t.Errorf("error %v", err)
		}
		if info, err := env.Inspector().GetTaskInfo("default", "a"); err != nil || info.Progress != nil {
			t.Errorf("%+v, error %v", info, err)
		}
		env.AllowViolations() // the token is that of no server
	})
}

func TestSetProgressOfLease(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, receiver := env.Context(), env.Receiver(asynq.ReceiverConfig{})
		env.Enqueue("a", asynq.Retention(time.Hour))
		leases, err := receiver.Receive(ctx, 1)
		env.NoError(err)
		lease := leases[0]
		env.NoError(lease.SetProgress(ctx, 0.25, "one"))
		wantProgress(env, 0.25, "one")
		env.NoError(asynq.SetProgress(lease.Context(), 0.5, "two"))
		wantProgress(env, 0.5, "two")
		again, err := env.Receiver(asynq.ReceiverConfig{}).OpenLease(ctx, lease.Ref())
		env.NoError(err)
		env.NoError(again.SetProgress(ctx, 1, "three"))
		wantProgress(env, 1, "three")
		if err := again.SetProgress(ctx, 2, ""); err == nil {
			t.Error("an invalid fraction is accepted")
		}
		env.NoError(lease.Complete(ctx, nil))
		for _, l := range []*asynq.Lease{lease, again} {
			if err := l.SetProgress(ctx, 0, "late"); !errors.Is(err, asynq.ErrLeaseExpired) {
				t.Errorf("after the settlement: error %v", err)
			}
		}
		wantProgress(env, 1, "three")
	})
}
