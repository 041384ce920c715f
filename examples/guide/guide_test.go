package guide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/examples/guide"
	"github.com/asynq-go/asynq/x/asynqtest"
)

func TestWelcomeEmail(t *testing.T) {
	b := asynqtest.Run(t)
	task, err := guide.NewWelcomeEmail(42)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client().Enqueue(task); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client().Enqueue(asynq.NewTask(guide.TypeWelcomeEmail, []byte("not JSON"))); err != nil {
		t.Fatal(err)
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc(guide.TypeWelcomeEmail, guide.HandleWelcomeEmail)
	ran := b.Drain(t, mux)
	if len(ran) != 2 || ran[0].Err != nil || ran[1].State != asynq.TaskStateArchived {
		t.Errorf("ran %v, want one success and one archived task", ran)
	}
}

func TestRetries(t *testing.T) {
	for status, want := range map[int]asynq.TaskState{
		http.StatusOK:                  0,
		http.StatusGone:                0,
		http.StatusTooManyRequests:     asynq.TaskStateRetry,
		http.StatusServiceUnavailable:  asynq.TaskStateRetry,
		http.StatusInternalServerError: asynq.TaskStateRetry,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			defer site.Close()
			b := asynqtest.Run(t)
			if _, err := b.Client().Enqueue(asynq.NewTask("webhook", []byte(site.URL))); err != nil {
				t.Fatal(err)
			}
			configure := asynqtest.Configure(func(cfg *asynq.Config) { cfg.RetryDelayFunc = guide.RetryDelay })
			ran := b.Drain(t, asynq.HandlerFunc(guide.CallWebhook), configure, asynqtest.LeaveRetries())
			if len(ran) != 1 || ran[0].State != want {
				t.Errorf("status %d: %v, want state %v", status, ran, want)
			}
		})
	}
	for failures, want := range map[int]time.Duration{0: 10 * time.Second, 1: 20 * time.Second, 25: time.Hour} {
		if d := guide.RetryDelay(failures, nil, nil); d != want {
			t.Errorf("after %d failures: %v, want %v", failures, d, want)
		}
	}
}

func TestArchived(t *testing.T) {
	b := asynqtest.Run(t)
	alerts := make(chan string, 1)
	srv := guide.NewAlertingServer(b.RedisConnOpt(), func(_ context.Context, text string) error {
		alerts <- text
		return errors.New("the pager is off")
	})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry })); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if _, err := b.Client().Enqueue(asynq.NewTask("report", nil, asynq.TaskID("7"))); err != nil {
		t.Fatal(err)
	}
	if got, want := <-alerts, "report 7 of queue default is archived: skip retry for the task"; got != want {
		t.Errorf("alert %q, want %q", got, want)
	}
}

func TestAttempts(t *testing.T) {
	b := asynqtest.Run(t)
	if _, err := b.Client().Enqueue(asynq.NewTask("import", nil), asynq.TaskID("a"), asynq.MaxRetry(0)); err != nil {
		t.Fatal(err)
	}
	b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		return guide.ImportRows(ctx, []string{"x", "y", "z", "bad"}, func(_ context.Context, row string) error {
			if row == "bad" {
				return errors.New("is bad")
			}
			return nil
		})
	}), asynqtest.Configure(func(cfg *asynq.Config) { cfg.AttemptLog = 20 }))
	var out strings.Builder
	if err := guide.PrintHistory(&out, b.Inspector(), "default", "a"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "75 %: 3 of 4 rows\nfailed on ") || !strings.HasSuffix(got, ": row 4: is bad\n") {
		t.Errorf("printed %q", got)
	}
}

func TestUnique(t *testing.T) {
	b := asynqtest.Run(t)
	ids := make(map[string]bool)
	for range 2 {
		if err := guide.RequestReport(t.Context(), b.Client(), "2026-10"); err != nil {
			t.Error(err)
		}
		id, err := guide.ChargeOrder(t.Context(), b.Client(), "7")
		if err != nil {
			t.Error(err)
		}
		ids[id] = true
	}
	if len(ids) != 1 {
		t.Errorf("two calls for the same order returned %d IDs", len(ids))
	}
	b.AssertCount(t, 1, asynqtest.Task{Type: "report:monthly"})
	b.AssertCount(t, 1, asynqtest.Task{Type: "order:charge"})
}

func TestModes(t *testing.T) {
	b := asynqtest.Run(t)
	for _, text := range []string{"one", "two", "three"} {
		if err := guide.IndexDocument(t.Context(), b.Client(), "7", []byte(text)); err != nil {
			t.Error(err)
		}
		if err := guide.NotifyEdited(t.Context(), b.Client(), "7"); err != nil {
			t.Error(err)
		}
		if err := guide.RefreshFeed(t.Context(), b.Client(), "7"); err != nil {
			t.Error(err)
		}
	}
	b.AssertCount(t, 1, asynqtest.Task{Type: "document:index"})
	b.AssertEnqueued(t, asynqtest.Task{Type: "document:index", Payload: "three"})
	b.AssertCount(t, 1, asynqtest.Task{Type: "document:edited"})
	b.AssertEnqueued(t, asynqtest.Task{Type: "document:edited", ProcessIn: 5 * time.Second})
	b.AssertCount(t, 2, asynqtest.Task{Type: "feed:refresh"})
	b.AssertEnqueued(t, asynqtest.Task{Type: "feed:refresh", ProcessIn: time.Minute})
}

func TestScheduler(t *testing.T) {
	b := asynqtest.Run(t)
	scheduler, err := guide.StartScheduler(b.RedisConnOpt())
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Shutdown()
}

func TestGroups(t *testing.T) {
	b := asynqtest.Run(t)
	for _, event := range []string{"liked", "shared"} {
		if err := guide.Notify(t.Context(), b.Client(), "ada", event); err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Second) // Events of the same second have no order.
	}
	b.Advance(2 * time.Minute)
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	ran := b.Drain(t, handler, asynqtest.Aggregate(asynq.GroupAggregatorFunc(guide.Digest)))
	if len(ran) != 1 || string(ran[0].Payload) != "liked\nshared" {
		t.Errorf("ran %v, want one digest of both events", ran)
	}
	startAndStop(t, guide.NewDigestServer(b.RedisConnOpt()))
}

func TestPriorities(t *testing.T) {
	b := asynqtest.Run(t)
	startAndStop(t, guide.NewWeightedServer(b.RedisConnOpt()))
	startAndStop(t, guide.NewLimitedServer(b.RedisConnOpt()))
}

func startAndStop(t *testing.T, srv *asynq.Server) {
	t.Helper()
	if err := srv.Start(asynq.NotFoundHandler()); err != nil {
		t.Fatal(err)
	}
	srv.Shutdown()
}

func TestShutdown(t *testing.T) {
	b := asynqtest.Run(t)
	if _, err := b.Client().Enqueue(asynq.NewTask("reindex", []byte("three"))); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		defer stop()
		return guide.Reindex(ctx, task)
	})
	srv := asynq.NewServer(b.RedisConnOpt(), asynq.Config{LogLevel: asynq.ErrorLevel})
	if err := guide.Serve(ctx, srv, handler); err != nil {
		t.Fatal(err)
	}
	b.AssertNotEnqueued(t, asynqtest.Task{}) // The task succeeded.
}

func TestReindexStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(asynq.ErrServerClosed)
	if err := guide.Reindex(ctx, asynq.NewTask("reindex", []byte("three"))); err != asynq.ErrServerClosed { //nolint:errorlint // The cause itself.
		t.Errorf("Reindex returned %v, want ErrServerClosed", err)
	}
}

func TestMonitoring(t *testing.T) {
	b := asynqtest.Run(t)
	srv := asynq.NewServer(b.RedisConnOpt(), asynq.Config{LogLevel: asynq.ErrorLevel})
	for _, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		guide.Health(srv).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))
		if w.Code != want {
			t.Errorf("health check: %d, want %d", w.Code, want)
		}
		if err := srv.Start(asynq.NotFoundHandler()); want == http.StatusOK && err != nil {
			t.Fatal(err)
		}
		srv.Shutdown()
	}

	if _, err := b.Client().Enqueue(asynq.NewTask("email:welcome", nil), asynq.MaxRetry(0)); err != nil {
		t.Fatal(err)
	}
	b.Advance(time.Hour)
	late, err := guide.LateQueues(t.Context(), b.Inspector(), time.Minute)
	if err != nil || len(late) != 1 {
		t.Errorf("late queues: %v, %v, want one", late, err)
	}
	b.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("smtp: timeout") }))
	if n, err := guide.RunFailedMails(t.Context(), b.Inspector()); n != 1 || err != nil {
		t.Errorf("RunFailedMails returned %d, %v, want 1", n, err)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	redis := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	failed := make(chan struct{}, 1)
	srv := asynq.NewServer(redis, asynq.Config{
		LogLevel: asynq.ErrorLevel,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			guide.LogFailure(ctx, task, err)
			failed <- struct{}{}
		}),
	})
	if err := srv.Start(asynq.HandlerFunc(guide.BuildReport)); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if url, err := guide.ReportAddress(t.Context(), client, "2026-11"); err != nil || url != "https://reports.example.com/2026-11" {
		t.Errorf("%q, %v", url, err)
	}
	if _, err := guide.ReportAddress(t.Context(), client, ""); err == nil || !strings.Contains(err.Error(), "no month") {
		t.Errorf("a failed report: %v", err)
	}
	<-failed
}

func TestSlowTypes(t *testing.T) {
	t.Parallel()
	redis := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer client.Close()
	defer inspector.Close()
	if _, err := client.Enqueue(asynq.NewTask("report:build", nil)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	srv := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.ErrorLevel})
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { close(done); return nil })); err != nil {
		t.Fatal(err)
	}
	<-done
	srv.Shutdown() // sends the statistics
	if slow, err := guide.SlowTypes(t.Context(), inspector, 0); err != nil || len(slow) != 1 || !strings.HasPrefix(slow[0], "report:build in queue default") {
		t.Errorf("slow types: %q, %v", slow, err)
	}
	if slow, err := guide.SlowTypes(t.Context(), inspector, time.Minute); err != nil || len(slow) != 0 {
		t.Errorf("slower than a minute: %q, %v", slow, err)
	}
}

func TestConnect(t *testing.T) {
	t.Setenv("REDIS_URL", "rediss://worker:secret@redis.internal:6380/0")
	redis, err := guide.Connect()
	if err != nil {
		t.Fatal(err)
	}
	if opt := redis.(asynq.RedisClientOpt); opt.TLSConfig == nil || opt.Username != "worker" {
		t.Errorf("connects with %+v", opt)
	}
}
