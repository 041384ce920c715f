package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/metrics"
)

func TestWorker(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := newClient(t, opt)
	for range 3 {
		enqueue(t, client, "ok")
	}
	enqueue(t, client, "fails", asynq.MaxRetry(1))
	enqueue(t, client, "panics", asynq.MaxRetry(0))
	m := metrics.NewWorker(metrics.WorkerOptions{Types: 3})
	mux := asynq.NewServeMux()
	mux.Use(m.Middleware)
	mux.HandleFunc("ok", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("fails", func(context.Context, *asynq.Task) error { return errFailed })
	mux.HandleFunc("panics", func(context.Context, *asynq.Task) error { panic("deliberate") })
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 1, Logger: quiet(), Observer: m.Observer()})
	if err := srv.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	var got map[string]float64
	proctest.Until(t, "all to be processed", func() error {
		got = gather(t, m)
		trips := got["asynq_round_trip_seconds{}"]
		// A round trip that ends while the metrics are gathered may be in one of the two only.
		if got["asynq_attempts_total{outcome=archived,queue=default,type=panics}"] != 1 || trips != got["asynq_round_trip_settled{}"] {
			return errFailed
		}
		return nil
	})
	wantValues(t, got, map[string]float64{
		"asynq_attempts_total{outcome=succeeded,queue=default,type=ok}":             3,
		"asynq_attempts_total{outcome=retried,queue=default,type=fails}":            1,
		"asynq_task_processing_seconds{outcome=succeeded,queue=default,type=ok}":    3,
		"asynq_task_processing_seconds{outcome=failed,queue=default,type=fails}":    1,
		"asynq_task_processing_seconds{outcome=panicked,queue=default,type=panics}": 1,
		"asynq_task_waiting_seconds{queue=default,type=ok}":                         3,
		"asynq_handlers_running{queue=default,type=ok}":                             0,
		"asynq_round_trip_errors_total{}":                                           0,
	})
	if trips := got["asynq_round_trip_seconds{}"]; trips < 5 {
		t.Errorf("%v round trips", trips)
	}
	// The first three types have series of their own.
	for i := range 5 {
		enqueue(t, client, fmt.Sprint("ok:", i))
	}
	proctest.Until(t, "the other types", func() error {
		if got = gather(t, m); got["asynq_attempts_total{outcome=succeeded,queue=default,type=other}"] != 5 {
			return errFailed
		}
		return nil
	})
}

// Events of a Worker without a server: lost leases, recovered tasks, stuck handlers, and names that
// are not valid labels.
func TestWorkerObserver(t *testing.T) {
	t.Parallel()
	m := metrics.NewWorker(metrics.WorkerOptions{Buckets: []float64{}})
	o := m.Observer()
	task := asynq.ObservedTask{ID: "t", Queue: "q", Type: "\xff"}
	o.LeaseLost(task)
	o.TaskRecovered(task)
	o.AttemptStarted(asynq.AttemptStart{ObservedTask: task, Wait: -time.Microsecond})
	o.AttemptEnded(asynq.AttemptEnd{ObservedTask: task, Outcome: asynq.OutcomeRetried, Err: fmt.Errorf("late: %w", asynq.ErrHandlerStuck)})
	o.AttemptEnded(asynq.AttemptEnd{ObservedTask: asynq.ObservedTask{Queue: "q"}, Outcome: asynq.OutcomeArchived, Err: errFailed})
	o.RoundTripEnded(asynq.RoundTripStats{Rejected: 2, Err: errFailed})
	got := gather(t, m)
	wantValues(t, got, map[string]float64{
		`asynq_leases_lost_total{queue=q,type="\xff"}`:                   1,
		`asynq_tasks_recovered_total{queue=q,type="\xff"}`:               1,
		`asynq_handlers_stuck_total{queue=q,type="\xff"}`:                1,
		`asynq_attempts_total{outcome=retried,queue=q,type="\xff"}`:      1,
		"asynq_attempts_total{outcome=archived,queue=q,type=unreadable}": 1,
		"asynq_outcomes_rejected_total{}":                                2,
		"asynq_round_trip_errors_total{}":                                1,
	})
	for name := range got {
		if name == `asynq_task_waiting_seconds{queue=q,type="\xff"}` {
			t.Error("an unknown wait was counted")
		}
	}
}
