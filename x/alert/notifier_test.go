package alert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/alert"
	"github.com/asynq-go/asynq/x/health"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if does, ok := strings.CutPrefix(os.Args[1], sendmailArg); ok {
			os.Exit(runSendmail(does, os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// fakeSink fails with the errors, one after the other, and then succeeds.
type fakeSink struct {
	name   string
	errs   []error
	at     []time.Time
	alerts chan alert.Alert
}

func newSink(name string, errs ...error) *fakeSink {
	return &fakeSink{name: name, errs: errs, alerts: make(chan alert.Alert, 1000)}
}

func (s *fakeSink) Name() string { return s.name }

func (s *fakeSink) Send(ctx context.Context, a *alert.Alert) error {
	s.at = append(s.at, time.Now())
	if _, bounded := ctx.Deadline(); !bounded {
		return alert.ErrPermanent
	}
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err == nil {
			panic("oops")
		}
		return err
	}
	s.alerts <- *a
	return nil
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		good, slow := newSink("good"), newSink("slow", down, down)
		lost, bad, panics := newSink("lost", down, down, down, down, down), newSink("bad", fmt.Errorf("%w: 404", alert.ErrPermanent)), newSink("panics", nil)
		var log bytes.Buffer
		n, err := alert.New(alert.Config{
			Sinks: []alert.Sink{good, slow, lost, bad, panics}, After: -1, Source: "test", Link: "https://ops.example.com/", Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.Deliver(ctx) }()
		start := time.Now()
		sent := n.Observe(&health.Report{At: start, Causes: []health.Cause{{ID: "a", Severity: health.Trouble, Title: "no server is running", Evidence: []health.Evidence{{Text: "3 tasks wait"}}}}})
		if len(sent) != 1 || sent[0].Event != alert.Began || sent[0].Source != "test" || sent[0].Link == "" || sent[0].Evidence[0] != "3 tasks wait" || !sent[0].Since.Equal(start) {
			t.Errorf("%+v", sent)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, c := range []struct {
			s     *fakeSink
			sent  int
			tries []time.Duration
		}{
			{good, 1, []time.Duration{0}}, {slow, 1, []time.Duration{0, 2 * time.Second, 12 * time.Second}},
			{lost, 0, []time.Duration{0, 2 * time.Second, 12 * time.Second, 72 * time.Second, 372 * time.Second}},
			{bad, 0, []time.Duration{0}}, {panics, 0, []time.Duration{0}},
		} {
			var tries []time.Duration
			for _, at := range c.s.at {
				tries = append(tries, at.Sub(start))
			}
			if len(c.s.alerts) != c.sent || fmt.Sprint(tries) != fmt.Sprint(c.tries) {
				t.Errorf("%s: %d alerts, attempts at %v, want %d and %v", c.s.name, len(c.s.alerts), tries, c.sent, c.tries)
			}
		}
		for _, s := range n.Status() {
			failed := s.Sink != "good" && s.Sink != "slow"
			if (s.Failed == 1) != failed || (s.Sent == 1) == failed || (s.LastError != "") != failed || s.LastAt.IsZero() {
				t.Errorf("%+v", s)
			}
		}
		if got := strings.Count(log.String(), "alert not sent"); got != 2+5+1+1 {
			t.Errorf("%d lines are logged:\n%s", got, &log)
		}
		cancel()
		<-done
	})
}

// Alerts beyond a bound are dropped, and logged.
func TestTooManyAlerts(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n, err := alert.New(alert.Config{Sinks: []alert.Sink{newSink("a")}, After: -1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r := &health.Report{At: time.Now()}
	for i := range 150 {
		r.Causes = append(r.Causes, health.Cause{ID: fmt.Sprint(i), Severity: health.Trouble})
	}
	n.Observe(r)
	if got := strings.Count(log.String(), "alert dropped"); got != 50 || n.Status()[0].Failed != 50 {
		t.Errorf("%d alerts are dropped, %+v", got, n.Status())
	}
	if n.Observe(nil) != nil {
		t.Error("nil leads to alerts")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]alert.Config{
		"no sink":          {},
		"sink 0 is nil":    {Sinks: []alert.Sink{nil}},
		"unknown severity": {Sinks: []alert.Sink{newSink("a")}, Severity: 7},
		"Quiet":            {Sinks: []alert.Sink{newSink("a")}, Quiet: -1},
	} {
		if _, err := alert.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A queue without a server leads to an alert, and a mute prevents it.
func TestRun(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	if _, err := client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("mail")); err != nil {
		t.Fatal(err)
	}
	report, err := health.Check(t.Context(), inspector, health.Settings{})
	if err != nil || len(report.Causes) == 0 {
		t.Fatal(report, err)
	}
	s := newSink("a")
	n, err := alert.New(alert.Config{Sinks: []alert.Sink{s}, After: -1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, inspector, health.Settings{}, 0) }()
	if a := <-s.alerts; a.ID != report.Causes[0].ID || a.Title != report.Causes[0].Title {
		t.Errorf("%+v, want %+v", a, report.Causes[0])
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	bad := health.DefaultSettings()
	bad.Trend = -1
	if err := n.Run(t.Context(), inspector, bad, 0); err == nil {
		t.Error("invalid settings are accepted")
	}
}
