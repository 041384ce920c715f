package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// statsFrom is a time before all attempts of a test.
func statsFrom() time.Time { return time.Now().Add(-10 * time.Minute) }

// statsTo is a time after all attempts of a test, also on a Redis with another clock.
func statsTo() time.Time { return time.Now().Add(10 * time.Minute) }

// typeStats returns the statistics of the types of the queue default.
func typeStats(env *testenv.Env) map[string]*asynq.TypeStats {
	env.T.Helper()
	all, err := env.Inspector().TypeStats(context.Background(), "default", statsFrom(), statsTo())
	env.NoError(err)
	byType := make(map[string]*asynq.TypeStats)
	for _, s := range all {
		byType[s.Type] = s
	}
	return byType
}

// counts formats the outcomes that are not zero.
func counts(s *asynq.AttemptStats) string {
	var parts []string
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"succeeded", s.Succeeded}, {"retried", s.Retried}, {"deferred", s.Deferred}, {"archived", s.Archived}, {"revoked", s.Revoked},
		{"expired", s.Expired}, {"requeued", s.Requeued}, {"lost", s.LeaseLost}, {"crashed", s.Crashed},
	} {
		if c.n != 0 {
			parts = append(parts, fmt.Sprint(c.n, " ", c.name))
		}
	}
	return strings.Join(parts, ", ")
}

// Each outcome of a known run is counted once, after the shutdown at the latest.
func TestStatsOutcomes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations() // the unreadable task
		failed := errors.New("dial tcp 10.0.0.1:5432: connection refused")
		returns := map[string]error{
			"succeeds": nil, "fails": failed, "out of retries": failed, "skips": fmt.Errorf("no: %w", asynq.SkipRetry),
			"revoked": asynq.RevokeTask, "snoozes": asynq.Snooze(time.Hour),
		}
		for id := range returns {
			env.Enqueue(id, asynq.MaxRetry(len(id)%14)) // "out of retries" has none left
		}
		env.Enqueue("stays")
		env.RDB.HSet(context.Background(), env.Queue.Task("unreadable"), "state", "pending", "msg", "\xff")
		env.RDB.RPush(context.Background(), env.Queue.Pending(), "unreadable")
		staying := make(chan struct{})
		srv := env.Serve(asynq.Config{Concurrency: 10, ShutdownTimeout: 10 * time.Millisecond}, func(ctx context.Context, task *asynq.Task) error {
			if task.Type() == "stays" {
				close(staying)
				<-ctx.Done()
			}
			return returns[task.Type()]
		})
		testenv.Await(env, staying, "the last task to start")
		for id, state := range map[string]string{
			"succeeds": "", "fails": "retry", "out of retries": "archived", "skips": "archived", "revoked": "", "snoozes": "retry", "unreadable": "archived",
		} {
			env.AwaitState(id, state)
		}
		srv.Shutdown()
		got, ran := typeStats(env), int64(0)
		for id, want := range map[string]string{
			"succeeds": "1 succeeded", "fails": "1 retried", "out of retries": "1 archived", "skips": "1 archived", "revoked": "1 revoked",
			"snoozes": "1 deferred", "stays": "1 requeued", "": "1 archived",
		} {
			s := got[id]
			if s == nil || counts(&s.AttemptStats) != want {
				env.T.Errorf("type %q: %+v, want %s", id, s, want)
				continue
			}
			if started := s.Duration.Count(); started != 1 && id != "" || started != 0 && id == "" {
				env.T.Errorf("type %q: %d durations", id, started)
			}
			ran += s.Attempts()
		}
		points, err := env.Inspector().QueueHistory(context.Background(), "default", statsFrom(), statsTo())
		env.NoError(err)
		var all asynq.AttemptStats
		for _, p := range points {
			all.Merge(&p.AttemptStats)
		}
		if all.Attempts() != ran || ran != 8 || all.Duration.Count() != 7 || all.Wait.Count() == 0 || all.Failed() != 4 {
			env.T.Errorf("the queue has %d attempts (%d durations, %d waits), its types %d, want 8", all.Attempts(), all.Duration.Count(), all.Wait.Count(), ran)
		}
		history, err := env.Inspector().TypeHistory(context.Background(), "", "fails", statsFrom(), statsTo())
		env.NoError(err)
		if len(history) != 1 || history[0].Retried != 1 || history[0].Length != time.Minute || history[0].Queue != "default" {
			env.T.Errorf("history of a type: %+v", history)
		}
		failures, err := env.Inspector().ErrorStats(context.Background(), "default", statsFrom(), statsTo())
		env.NoError(err)
		n := make(map[string]int64)
		for _, f := range failures {
			n[f.Kind] += f.Count
			if f.First.After(f.Last) || f.Queue != "default" {
				env.T.Errorf("errors: %+v", f)
			}
		}
		if len(failures) != 4 || len(n) != 3 || n[asynq.ErrorKind(failed.Error())] != 2 {
			env.T.Errorf("errors: %v", n)
		}
	})
}

// A call whose reply is lost is repeated, and counts once.
func TestStatsLostReply(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		proxy, opt := env.Proxy()
		env.EnqueueMany(20)
		lost := proxy.SwallowReplies(1, "stats:m:", "type") // a call with attempts, whenever it comes; others have only sizes
		srv := env.ServeOn(opt, asynq.Config{Concurrency: 4}, func(context.Context, *asynq.Task) error { return nil })
		env.AwaitEmpty()
		srv.Shutdown()
		select {
		case <-lost.Done():
		default:
			env.T.Fatal("no reply was lost")
		}
		var succeeded int64
		for _, s := range typeStats(env) {
			succeeded += s.Succeeded
		}
		if succeeded != 20 {
			env.T.Errorf("%d attempts, want 20", succeeded)
		}
	})
}

// A server without statistics writes none.
func TestDisableStats(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.EnqueueMany(3)
		srv := env.Serve(asynq.Config{DisableStats: true}, func(context.Context, *asynq.Task) error { return errors.New("failed") })
		env.AwaitState("t2", "retry")
		srv.Shutdown()
		if keys := append(env.Keys("*stats*"), env.Keys("*errors*")...); len(keys) > 0 {
			env.T.Errorf("keys %q", keys)
		}
	})
}

// The recovery of a task counts the attempt of its crashed server, a Receiver counts settled
// leases, the sizes of queues are stored, and DeleteQueue leaves nothing of all that, although the
// server is running.
func TestStatsOfQueueAreDeleted(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("crashed")
		env.FetchAndCrash(1)
		receiver := env.Receiver(asynq.ReceiverConfig{TaskCheckInterval: 10 * time.Millisecond})
		leases, err := receiver.Receive(env.Context(), 1, "default")
		env.NoError(err)
		env.NoError(leases[0].Complete(env.Context(), nil))
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { return nil })
		i := env.Inspector()
		env.Eventually(func() bool {
			points, err := i.QueueHistory(context.Background(), "default", statsFrom(), statsTo())
			return err == nil && len(points) > 0 && points[len(points)-1].Sizes != nil
		}, "the sizes of the queue")
		receiver.Shutdown()
		if s := typeStats(env)["crashed"]; s == nil || counts(&s.AttemptStats) != "1 succeeded, 1 crashed" || s.Failed() != 1 || s.Attempts() != 2 {
			env.T.Errorf("statistics: %+v", s)
		}
		env.NoError(i.DeleteQueue("default", true))
		if keys := append(env.Keys("*stats*"), env.Keys("*errors*")...); len(keys) > 0 {
			env.T.Errorf("keys %q", keys)
		}
	})
}
