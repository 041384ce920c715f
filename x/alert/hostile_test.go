package alert_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/alert"
	"github.com/asynq-go/asynq/x/health"
)

// hostileTexts are names of queues, types and errors, which come from the network.
var hostileTexts = []string{
	"", "\x00", "\xff\xfe", "\r\nBcc: eve@example.com\r\n\r\n.\r\n", "<!channel> <@U1> <https://example.com|click> & &amp;", "`'\"$(id);|",
	"\u202ereversed", strings.Repeat("long ", 100_000), "{{.}} %s %d", "\x1b[31m",
}

var noContext context.Context

func TestHostileAlerts(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	t.Cleanup(srv.Close)
	client := srv.Client()
	dir := t.TempDir()
	sinks := []alert.Sink{
		&alert.Webhook{URL: srv.URL, Client: client, Secret: "\x00"}, &alert.Slack{URL: srv.URL, Client: client},
		&alert.Mail{Command: []string{os.Args[0], sendmailArg + "store", "x", dir}, To: []string{"ops@example.com\nBcc: eve@example.com"}, From: "a\r\nBcc: b"},
	}
	for _, text := range hostileTexts {
		a := &alert.Alert{
			Event: alert.Event(text), ID: text, Kind: text, Title: text, Hint: text, Source: text, Link: text, Queues: []string{text},
			Evidence: []string{text}, Severity: health.Warning,
		}
		for _, s := range sinks {
			if err := s.Send(t.Context(), a); err != nil {
				t.Errorf("%s: %.50q: %v", s.Name(), text, err)
				continue
			}
			if _, mail := s.(*alert.Mail); mail {
				sent, err := os.ReadFile(filepath.Join(dir, "mail"))
				header, _, _ := strings.Cut(string(sent), "\n\n")
				if err != nil || strings.Contains(header, "\nBcc:") || strings.ContainsAny(header, "\r\x00") || strings.Contains(string(sent), "\n.\n") {
					t.Errorf("mail of %.50q: %v\n%.500q", text, err, sent)
				}
			} else if body := <-bodies; strings.Contains(body, "<!channel>") {
				t.Errorf("%s mentions everyone: %.500s", s.Name(), body)
			}
		}
	}
	for _, s := range sinks {
		if err := s.Send(t.Context(), nil); !errors.Is(err, alert.ErrPermanent) {
			t.Errorf("%s without an alert: %v", s.Name(), err)
		}
		if err := s.Send(noContext, sample()); !errors.Is(err, alert.ErrPermanent) {
			t.Errorf("%s without a context: %v", s.Name(), err)
		}
	}
	for _, url := range append(hostileTexts, "http://", "://", "ftp://example.com/secret", "http://[::1", "http://exa mple.com/secret") {
		for _, s := range []alert.Sink{&alert.Webhook{URL: url, Client: client}, &alert.Slack{URL: url, Client: client}} {
			if err := s.Send(t.Context(), sample()); err == nil || strings.Contains(err.Error()+s.Name(), "secret") {
				t.Errorf("URL %.50q: %s: %v", url, s.Name(), err)
			}
		}
	}
}

func TestHostileNotifier(t *testing.T) {
	t.Parallel()
	for _, c := range []alert.Config{
		{}, {Sinks: []alert.Sink{nil}}, {Sinks: []alert.Sink{newSink("a")}, Severity: -1}, {Sinks: []alert.Sink{newSink("a")}, Severity: math.MaxInt},
		{Sinks: []alert.Sink{newSink("a")}, Quiet: -1},
	} {
		if n, err := alert.New(c); err == nil || n != nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	n, err := alert.New(alert.Config{Sinks: []alert.Sink{newSink("a")}, After: math.MinInt64, Quiet: math.MaxInt64, Reminder: math.MinInt64})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{{}, time.Unix(math.MaxInt32, 0), time.Unix(0, 0), {}} { // also backward
		for _, id := range hostileTexts {
			n.Observe(&health.Report{At: at, Causes: []health.Cause{{ID: id, Severity: 99}, {ID: id, Severity: -99}}, Problems: hostileTexts})
		}
	}
	if alerts := n.Observe(nil); alerts != nil {
		t.Errorf("nil report: %v", alerts)
	}
	if err := n.Run(t.Context(), nil, health.Settings{}, 0); err == nil {
		t.Error("Run accepts a nil Inspector")
	}
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = i.Close() })
	if err := n.Run(noContext, i, health.Settings{}, 0); err == nil {
		t.Error("Run accepts a nil context")
	}
	if err := n.Run(t.Context(), i, health.Settings{Trend: -1}, -1); err == nil {
		t.Error("Run accepts invalid settings")
	}
}
