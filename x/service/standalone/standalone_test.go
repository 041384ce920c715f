package standalone_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service/standalone"
)

func TestRun(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	r := f.run()
	if r.tls {
		t.Error("reported TLS")
	}
	r.is(http.StatusOK, "GET", "/healthz", "", "")
	r.is(http.StatusCreated, "POST", "/v1/tasks", secret, `{"type":"t","id":"1"}`)
	r.is(http.StatusUnauthorized, "POST", "/v1/tasks", newSecret, `{"type":"t"}`)
	r.end()
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	l.Close()
	if strings.Contains(r.log.String(), secret) || strings.Contains(r.log.String(), "level=ERROR") {
		t.Errorf("logged: %s", r.log)
	}
}

// With a canceled context, Run returns immediately.
func TestRunWithCanceledContext(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := standalone.Run(ctx, standalone.Options{Path: f.path, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
}

// The service starts without Redis, and is ready while Redis responds.
func TestReadiness(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	f.redis.Close()
	r := f.run()
	ready := func(want int) func() bool {
		return func() bool {
			got, _ := r.status("GET", "/readyz", "", "")
			return got == want
		}
	}
	proctest.Eventually(t, "the service not to be ready", ready(http.StatusServiceUnavailable))
	r.is(http.StatusOK, "GET", "/healthz", "", "")
	proctest.Until(t, "the port to be free", f.redis.Restart) // another process may have taken it
	proctest.Eventually(t, "the service to be ready", ready(http.StatusOK))
	r.is(http.StatusCreated, "POST", "/v1/tasks", secret, `{"type":"t"}`)
	r.end()
}

func TestReload(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	r := f.run()
	again := func() error {
		t.Helper()
		r.reload <- struct{}{}
		select {
		case err := <-r.reloaded:
			return err
		case <-time.After(timeout):
			t.Fatal("no reload")
			return nil
		}
	}
	r.is(http.StatusUnauthorized, "GET", "/v1/queues", newSecret, "")
	f.write("- {name: two, secret: " + newSecret + ", scopes: [read], queues: ['*']}\n")
	if err := again(); err != nil {
		t.Fatal(err)
	}
	r.is(http.StatusOK, "GET", "/v1/queues", newSecret, "")

	cert, _ := f.certificate("tls")
	key := filepath.Join(filepath.Dir(f.path), "tls.key")
	var wrong standalone.Errors
	for text, isErrors := range map[string]bool{
		"tokens: [":                 true,
		f.minimum() + "queues: 5\n": true,
		f.minimum() + "hosted: {http: {endpoints: {t: {url: 'nowhere'}}}}\n": true,
		f.minimum() + "tls: {cert: '" + cert + "', key: '" + key + "'}\n":    false, // a reload cannot enable it
	} {
		f.writeAll(text)
		if err := again(); err == nil || errors.As(err, &wrong) != isErrors {
			t.Errorf("reload of %q: %v", text, err)
		}
		r.is(http.StatusOK, "GET", "/v1/queues", newSecret, "")
	}
	if n := strings.Count(r.log.String(), "keeping the previous configuration"); n != 4 {
		t.Errorf("%d failed reloads logged, want 4", n)
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reload without a file: %v", err)
	}

	// Settings that a reload does not change are reported; all others change.
	f.writeAll("listen: localhost:1\nmetrics: false\n" + f.minimum())
	if err := again(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "need a restart") {
		t.Errorf("logged: %s", r.log)
	}
	r.is(http.StatusUnauthorized, "GET", "/v1/queues", newSecret, "")
	r.is(http.StatusOK, "GET", "/v1/queues", secret, "")
	close(r.reload)
	r.is(http.StatusOK, "GET", "/metrics", secret, "")
	r.end()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	_, pool := f.certificate("good")
	f.write("tls: {cert: good.pem, key: good.key}\n")
	r := f.run()
	if !r.tls {
		t.Error("did not report TLS")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + r.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	r.end()
}

// If Run fails, it returns the reason, does not call Listening, and leaves the port free.
func TestRunFails(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.certificate("a")
	f.certificate("b")
	if err := os.WriteFile(filepath.Join(filepath.Dir(f.path), "garbage.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	listen := "listen: " + free.Addr().String() + "\n"
	for name, c := range map[string]struct {
		text   string
		want   string
		errors bool // the error is of type Errors
	}{
		"no YAML":               {"redis: [", "invalid YAML", true},
		"nothing":               {"", "redis is missing", true},
		"address without port":  {"listen: localhost\n" + f.minimum(), "is not an address", true},
		"address of another":    {"listen: 192.0.2.1:8600\n" + f.minimum(), "cannot listen", false},
		"port in use":           {"listen: " + used.Addr().String() + "\n" + f.minimum(), "cannot listen", false},
		"Redis without address": {listen + strings.Replace(f.minimum(), "redis://", "http://", 1), "redis", true},
		"no certificate":        {listen + f.minimum() + "tls: {cert: none.pem, key: a.key}\n", "none.pem", true},
		"no key":                {listen + f.minimum() + "tls: {cert: a.pem}\n", "key", true},
		"garbage":               {listen + f.minimum() + "tls: {cert: garbage.pem, key: a.key}\n", "certificate", true},
		"another's key":         {listen + f.minimum() + "tls: {cert: a.pem, key: b.key}\n", "key", true},
		"garbage of clients":    {listen + f.minimum() + "tls: {cert: a.pem, key: a.key, client_ca: garbage.pem}\n", "garbage.pem", true},
	} {
		t.Run(name, func(t *testing.T) {
			f.writeAll(c.text)
			ctx, cancel := context.WithTimeout(t.Context(), timeout/4) // in case it runs
			defer cancel()
			err := standalone.Run(ctx, standalone.Options{
				Path: f.path, Logger: slog.New(slog.DiscardHandler),
				Listening: func(net.Addr, bool) { t.Error("reported that it listens") },
			})
			var wrong standalone.Errors
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &wrong) != c.errors {
				t.Errorf("%T: %v", err, err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
			proctest.Until(t, "the port to be free", func() error { // another process may have taken it for a while
				l, err := net.Listen("tcp", free.Addr().String())
				if err != nil {
					return err
				}
				return l.Close()
			})
			// Check reports the same errors of the file as Run, and no others.
			if _, err := standalone.Check(f.path); errors.As(err, &wrong) != c.errors || (err != nil) != c.errors {
				t.Errorf("check: %v", err)
			}
		})
	}
	if err := standalone.Run(t.Context(), standalone.Options{Path: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.redis.Close() // not needed
	f.write("")
	if warnings, err := standalone.Check(f.path); err != nil || len(warnings) != 0 {
		t.Errorf("valid file: %v, %v", warnings, err)
	}
	if err := os.Chmod(f.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if warnings, err := standalone.Check(f.path); err != nil || len(warnings) != 1 || warnings[0].File != f.path || warnings[0].Line != 4 {
		t.Errorf("file that others can read: %v, %v", warnings, err)
	}
	f.write("queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\nlisten: [\n")
	_, err := standalone.Check(f.path)
	var wrong standalone.Errors
	if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Line < 5 || wrong[0].File != f.path {
		t.Errorf("invalid YAML: %v", err)
	}
	f.write("queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\n")
	_, err = standalone.Check(f.path)
	if !errors.As(err, &wrong) || len(wrong) != 2 || fmt.Sprint(wrong[0].Line, wrong[0].Column, wrong[1].Line) != "5 14 6" {
		t.Errorf("file with two errors: %v", err)
	}
	if _, err := standalone.Check(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &wrong) {
		t.Errorf("missing file: %v", err)
	}
}

// A hosted task that is active at shutdown may run until the timeout. Then it returns to its queue,
// and the attempt does not count.
func TestHostedTaskExceedsShutdownTimeout(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("hosted:\n  shutdown_timeout: 100ms\n  cmd: {commands: {slow: {path: /bin/sleep, args: ['60'], grace: 1s}}}\n")
	r := f.run()
	r.is(http.StatusCreated, "POST", "/v1/tasks", secret, `{"type":"slow","id":"1","payload":{}}`)
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: f.addr})
	t.Cleanup(func() { _ = i.Close() })
	state := func() (asynq.TaskState, int) {
		info, err := i.GetTaskInfo("slow", "1")
		if err != nil {
			t.Fatal(err)
		}
		return info.State, info.Retried
	}
	proctest.Eventually(t, "the task to be active", func() bool { s, _ := state(); return s == asynq.TaskStateActive })
	r.cancel()
	select {
	case err := <-r.ended:
		t.Logf("ended with %v", err)
	case <-time.After(timeout):
		t.Fatal("service does not end")
	}
	if s, retried := state(); s != asynq.TaskStatePending || retried != 0 {
		t.Errorf("the task is %v after %d attempts", s, retried)
	}
}

// A failed hosted task keeps its attempts, and the archive of its queue keeps as many tasks as
// configured. A reload changes both.
func TestHostedTasksAreKept(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	fails := "cmd: {commands: {fails: {path: /usr/bin/false}}}}\n"
	f.write("archive: {max_tasks: 2}\nhosted: {" + fails)
	r := f.run()
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: f.addr})
	t.Cleanup(func() { _ = i.Close() })
	number := 0
	run := func() *asynq.TaskInfo {
		number++
		id := strconv.Itoa(number)
		r.is(http.StatusCreated, "POST", "/v1/tasks", secret, `{"type":"fails","id":"`+id+`","payload":{},"max_retry":0}`)
		var info *asynq.TaskInfo
		proctest.Eventually(t, "the task to be archived", func() bool {
			var err error
			info, err = i.GetTaskInfo("fails", id)
			return err == nil && info.State == asynq.TaskStateArchived
		})
		return info
	}
	archived := func(want int) {
		t.Helper()
		info, err := i.GetQueueInfo("fails")
		if err != nil || info.Archived != want {
			t.Errorf("the archive has %+v, want %d tasks; error %v", info, want, err)
		}
	}
	for range 3 {
		if info := run(); len(info.Attempts) != 0 {
			t.Errorf("attempts %v are kept by default", info.Attempts)
		}
	}
	archived(2)
	f.write("archive: {max_tasks: 2}\nqueues: {fails: {archive: {max_tasks: 3}}}\nhosted: {attempt_log: 5, " + fails)
	r.reload <- struct{}{}
	if err := <-r.reloaded; err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if info := run(); len(info.Attempts) != 1 || info.Attempts[0].Err == "" {
			t.Errorf("attempts: %v", info.Attempts)
		}
	}
	archived(3)
	r.end()
}

// With the web UI, local connections may view; changes need a sign-in link, which is created when
// the service listens and on request, or the configured token.
func TestSignInLinks(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("ui: true\n")
	r := f.run()
	link := <-r.links
	pause := func() int {
		code, _ := r.status(http.MethodPost, "/ui/api/queues/mail:pause", "", "")
		return code
	}
	if code := pause(); code != http.StatusUnauthorized {
		t.Errorf("an empty token: %d", code)
	}
	if code, body := r.status(http.MethodGet, link, "", ""); code != http.StatusUnauthorized {
		t.Errorf("%s with an empty token: %d %s", link, code, body)
	}
	follow := func(link string) int {
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get("http://" + r.addr + link)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if got := follow(link); got != want {
			t.Errorf("%s: %d, want %d", link, got, want)
		}
	}
	r.newLink <- struct{}{}
	if got := follow(<-r.links); got != http.StatusSeeOther {
		t.Errorf("another link: %d", got)
	}
	r.end()

	f.write("ui: {token: a-token-for-scripts}\n")
	r = f.run()
	for range 2 {
		if code, body := r.status(http.MethodDelete, "/ui/api/queues/mail", "a-token-for-scripts", ""); code != http.StatusNotFound {
			t.Errorf("a change with the token: %d %s", code, body)
		}
	}
	r.end()
	if len(r.links) > 0 || strings.Contains(r.log.String(), "a-token-for-scripts") {
		t.Errorf("links %v, log %s", <-r.links, r.log)
	}
}
