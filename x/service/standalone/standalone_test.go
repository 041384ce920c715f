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
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service/standalone"
)

func TestRunUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	r := f.run()
	if r.tls {
		t.Error("it says that there is TLS")
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

// One whose context has ended does nothing.
func TestRunAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := standalone.Run(ctx, standalone.Options{Path: f.path, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
}

// It is ready while Redis answers, and starts without it.
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
	proctest.Eventually(t, "it to say that it is not ready", ready(http.StatusServiceUnavailable))
	r.is(http.StatusOK, "GET", "/healthz", "", "")
	if err := f.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, "it to be ready", ready(http.StatusOK))
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
		case <-time.After(patience):
			t.Fatal("it does not reload")
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
		f.minimum() + "tls: {cert: '" + cert + "', key: '" + key + "'}\n":    false, // it cannot be turned on
	} {
		f.writeAll(text)
		if err := again(); err == nil || errors.As(err, &wrong) != isErrors {
			t.Errorf("reload of %q: %v", text, err)
		}
		r.is(http.StatusOK, "GET", "/v1/queues", newSecret, "")
	}
	if n := strings.Count(r.log.String(), "the configuration stays as it was"); n != 4 {
		t.Errorf("logged %d times that the configuration stays: want 4 times", n)
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if err := again(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reload without a file: %v", err)
	}

	// What a reload does not change is said, and all else changes.
	f.writeAll("listen: localhost:1\nmetrics: false\n" + f.minimum())
	if err := again(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "change only when the service starts anew") {
		t.Errorf("logged: %s", r.log)
	}
	r.is(http.StatusUnauthorized, "GET", "/v1/queues", newSecret, "")
	r.is(http.StatusOK, "GET", "/v1/queues", secret, "")
	close(r.reload) // nobody asks any more
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
		t.Error("it does not say that there is TLS")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("https://" + r.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	r.end()
}

// What cannot run says why, tells nobody that it listens, and leaves the port free.
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
		errors bool // it is an Errors
	}{
		"no YAML":               {"redis: [", "no YAML", true},
		"nothing":               {"", "redis is missing", true},
		"address without port":  {"listen: localhost\n" + f.minimum(), "is no address", true},
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
			ctx, cancel := context.WithTimeout(t.Context(), patience/4) // should it run after all
			defer cancel()
			err := standalone.Run(ctx, standalone.Options{
				Path: f.path, Logger: slog.New(slog.DiscardHandler),
				Listening: func(net.Addr, bool) { t.Error("it says that it listens") },
			})
			var wrong standalone.Errors
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &wrong) != c.errors {
				t.Errorf("%T: %v", err, err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("it tells a secret: %v", err)
			}
			l, err := net.Listen("tcp", free.Addr().String())
			if err != nil {
				t.Fatalf("the port is not free: %v", err)
			}
			l.Close()
			// What Run calls an error of the file, Check does, too, and nothing else.
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
	f.redis.Close() // nobody asks it
	f.write("")
	if warnings, err := standalone.Check(f.path); err != nil || len(warnings) != 0 {
		t.Errorf("of a good file: %v, %v", warnings, err)
	}
	if err := os.Chmod(f.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if warnings, err := standalone.Check(f.path); err != nil || len(warnings) != 1 || warnings[0].File != f.path || warnings[0].Line != 4 {
		t.Errorf("of one that others can read: %v, %v", warnings, err)
	}
	f.write("queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\nlisten: [\n")
	_, err := standalone.Check(f.path)
	var wrong standalone.Errors
	if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Line < 5 || wrong[0].File != f.path {
		t.Errorf("of one that is no YAML: %v", err)
	}
	f.write("queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\n")
	_, err = standalone.Check(f.path)
	if !errors.As(err, &wrong) || len(wrong) != 2 || fmt.Sprint(wrong[0].Line, wrong[0].Column, wrong[1].Line) != "5 14 6" {
		t.Errorf("of one with two errors: %v", err)
	}
	if _, err := standalone.Check(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &wrong) {
		t.Errorf("of none: %v", err)
	}
}

// A hosted task that is at work when the service ends has so long; then it goes back to its queue, and none of its attempts is used.
func TestHostedTaskThatTakesTooLong(t *testing.T) {
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
	proctest.Eventually(t, "the task to be at work", func() bool { s, _ := state(); return s == asynq.TaskStateActive })
	r.cancel()
	select {
	case err := <-r.ended:
		t.Logf("it ended with %v", err)
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if s, retried := state(); s != asynq.TaskStatePending || retried != 0 {
		t.Errorf("the task is %v after %d attempts", s, retried)
	}
}
