package alert_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/alert"
	"github.com/asynq-go/asynq/x/health"
)

func sample() *alert.Alert {
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	return &alert.Alert{
		Event: alert.Began, At: at, Since: at.Add(-time.Minute), Source: "production", Link: "https://ops.example.com/", ID: "paused:mail", Kind: "paused",
		Severity: health.Warning, Title: `Queue "mail" is paused & grows <fast>`, Hint: "Resume it.", Queues: []string{"mail"}, Evidence: []string{"120 tasks wait"},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	a := sample()
	const want = `production: [warning] Queue "mail" is paused & grows <fast>
Since 2030-01-31 11:59:00 UTC.
- 120 tasks wait
Resume it.
https://ops.example.com/`
	if got := a.Text(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for event, want := range map[alert.Event]string{alert.Worse: "[now warning]", alert.Reminder: "[still warning]", alert.Resolved: "[resolved]"} {
		if a.Event = event; !strings.Contains(a.Subject(), want) {
			t.Errorf("%s: %s", event, a.Subject())
		}
	}
	a.Event = alert.Resolved
	if got := a.Text(); !strings.Contains(got, "It lasted from 2030-01-31 11:59:00 UTC to 2030-01-31 12:00:00 UTC.") || strings.Contains(got, "Resume") {
		t.Errorf("resolved: %s", got)
	}
}

// received is a request to a sink.
type received struct {
	header http.Header
	body   []byte
}

func server(t *testing.T, status int) (*httptest.Server, func() received) {
	t.Helper()
	requests := make(chan received, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.Header, body}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s, func() received { return <-requests }
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	s, request := server(t, http.StatusNoContent)
	w := &alert.Webhook{URL: s.URL + "/secret-path", Secret: "hush", Client: s.Client()}
	if err := w.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	r := request()
	mac := hmac.New(sha256.New, []byte("hush"))
	mac.Write([]byte(r.header.Get("X-Asynq-Timestamp") + "." + string(r.body)))
	if got := r.header.Get("X-Asynq-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %q", got)
	}
	var got alert.Alert
	if err := json.Unmarshal(r.body, &got); err != nil || got.ID != "paused:mail" || got.Severity != health.Warning || got.Event != alert.Began || len(got.Evidence) != 1 {
		t.Errorf("%s, %v", r.body, err)
	}
	w.Secret = ""
	if err := w.Send(t.Context(), sample()); err != nil || request().header.Get("X-Asynq-Signature") != "" {
		t.Errorf("without a secret: %v", err)
	}
	if name := w.Name(); strings.Contains(name, "secret") || !strings.HasPrefix(name, "webhook 127.0.0.1:") {
		t.Errorf("name %q", name)
	}
}

func TestSlack(t *testing.T) {
	t.Parallel()
	s, request := server(t, http.StatusOK)
	if err := (&alert.Slack{URL: s.URL, Client: s.Client()}).Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(request().body, &got); err != nil || len(got) != 1 || !strings.HasPrefix(got["text"], `production: [warning] Queue "mail" is paused &amp; grows &lt;fast&gt;`) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, permanent := range map[int]bool{500: false, 503: false, 429: false, 408: false, 400: true, 404: true, 302: false} {
		s, _ := server(t, status)
		err := (&alert.Webhook{URL: s.URL + "/secret-path", Client: s.Client()}).Send(t.Context(), sample())
		if err == nil || errors.Is(err, alert.ErrPermanent) != permanent || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
	s, _ := server(t, 200)
	s.Close()
	if err := (&alert.Slack{URL: s.URL + "/secret-path"}).Send(t.Context(), sample()); err == nil || errors.Is(err, alert.ErrPermanent) || strings.Contains(err.Error(), "secret") {
		t.Errorf("unreachable: %v", err)
	}
	if err := (&alert.Slack{URL: ":secret"}).Send(t.Context(), sample()); !errors.Is(err, alert.ErrPermanent) || strings.Contains(err.Error(), "secret") {
		t.Errorf("invalid: %v", err)
	}
}

// sendmailArg is the argument that makes this test binary stand for sendmail; what it does follows.
const sendmailArg = "-asynq-sendmail="

// runSendmail stores its standard input and first argument in a directory, or fails.
func runSendmail(does string, args []string) int {
	mail, err := io.ReadAll(os.Stdin)
	if does == "fail" {
		fmt.Fprintln(os.Stderr, "no such user")
		return 67
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(args[1], "mail"), mail, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(args[1], "args"), []byte(args[0]), 0o600)
	}
	if err != nil {
		return 1
	}
	return 0
}

func TestMail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &alert.Mail{Command: []string{os.Args[0], sendmailArg + "store", "-t; rm -rf $HOME", dir}, To: []string{"ops@example.com", "ann@example.com"}, From: "asynq@example.com"}
	a := sample()
	a.Title = "Warteschlange \"müll\"\r\nBcc: eve@example.com\n."
	if err := m.Send(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	mail, err := os.ReadFile(filepath.Join(dir, "mail"))
	if err != nil {
		t.Fatal(err)
	}
	header, body, _ := strings.Cut(string(mail), "\n\n")
	for _, line := range []string{"From: asynq@example.com", "To: ops@example.com, ann@example.com", "Subject: =?utf-8?q?", "Auto-Submitted: auto-generated", "Content-Type: text/plain; charset=utf-8"} {
		if !strings.Contains("\n"+header, "\n"+line) {
			t.Errorf("the header lacks %q:\n%s", line, header)
		}
	}
	if strings.Contains(header, "\nBcc:") || !strings.Contains(body, "müll") || strings.Contains("\n"+body, "\n.\n") {
		t.Errorf("the mail is\n%s", mail)
	}
	if args, err := os.ReadFile(filepath.Join(dir, "args")); err != nil || string(args) != "-t; rm -rf $HOME" {
		t.Errorf("arguments %q, %v", args, err)
	}
}

func TestMailFails(t *testing.T) {
	t.Parallel()
	m := &alert.Mail{Command: []string{os.Args[0], sendmailArg + "fail"}, To: []string{"ops@example.com"}}
	if err := m.Send(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "no such user") || errors.Is(err, alert.ErrPermanent) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Send(ctx, sample()); err == nil {
		t.Error("a canceled mail is sent")
	}
	for _, m := range []*alert.Mail{{To: m.To}, {Command: m.Command}, {Command: []string{"asynq-no-such-command"}, To: m.To}} {
		if err := m.Send(t.Context(), sample()); !errors.Is(err, alert.ErrPermanent) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}
