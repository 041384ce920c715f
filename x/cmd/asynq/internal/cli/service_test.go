//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

const serviceToken = "0123456789abcdef"

// service runs the service of a configuration file until stop is called, which returns its exit code and what it said.
func (w *world) service(file string) (url string, said *signalWriter, stop func() (int, string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	listening, code := make(chan struct{}), make(chan int, 1)
	said = newSignalWriter("asynq: service at ", 1, sync.OnceFunc(func() { close(listening) }))
	go func() {
		code <- Run(ctx, []string{"service", "--config", file}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: said, Env: os.LookupEnv})
	}()
	stop = func() (int, string) {
		cancel()
		return <-code, said.String()
	}
	select {
	case <-listening:
	case c := <-code:
		cancel()
		w.t.Fatalf("the service ended with %d: %s", c, said)
	}
	return regexp.MustCompile(`service at (https?://\S+)`).FindStringSubmatch(said.String())[1], said, stop
}

// serviceFile writes a configuration, which more is added to.
func (w *world) serviceFile(name, more string) string {
	w.t.Helper()
	file := filepath.Join(w.home, name)
	text := "redis: {uri: 'redis://" + redisAddr + "', namespace: " + w.namespace + "}\nlisten: 127.0.0.1:0\n" +
		"tokens: [{name: t, secret: '" + serviceToken + "', scopes: [enqueue, read], queues: ['*']}]\n" + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// post posts JSON, and returns the status and the body of the answer.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+serviceToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// completed waits until a task is completed, and returns its result.
func (w *world) completed(queue, id string) string {
	w.t.Helper()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-ticker.C {
		if info, err := w.inspector.GetTaskInfo(queue, id); err == nil && info.State == asynq.TaskStateCompleted {
			return string(info.Result)
		}
	}
	w.t.Fatalf("task %s is not completed", id)
	return ""
}

// A task that is enqueued over HTTP is carried out, and a SIGHUP brings others in, without the one at work being lost.
func TestServiceRunsAndReloads(t *testing.T) {
	w := newWorld(t)
	release := filepath.Join(w.home, "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := "hosted:\n  cmd:\n    commands:\n      slow: {path: /bin/cat, args: ['" + release + "']}\n"
	file := w.serviceFile("service.yaml", slow)
	url, said, stop := w.service(file)

	enqueue := func(typename, id string) {
		t.Helper()
		if status, body := post(t, url+"/v1/tasks", `{"type":"`+typename+`","id":"`+id+`","retention":"1h","payload":{}}`); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
	}
	enqueue("slow", "first")
	writer, err := os.OpenFile(release, os.O_WRONLY, 0) // waits for the command
	if err != nil {
		t.Fatal(err)
	}
	w.serviceFile("service.yaml", strings.Replace(slow, "slow:", "quick: {path: /bin/echo, args: [hello]}\n      slow:", 1))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	enqueue("quick", "second")
	if got := w.completed("quick", "second"); got != "hello\n" {
		t.Errorf("result %q", got)
	}
	// One with errors changes nothing.
	w.serviceFile("service.yaml", "hosted: 5\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), "stays as it was") && time.Now().Before(deadline); {
		<-ticker.C
	}
	enqueue("quick", "third")
	w.completed("quick", "third")
	if _, err := writer.WriteString("from the fifo"); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if got := w.completed("slow", "first"); got != "from the fifo" {
		t.Errorf("result %q", got)
	}
	if code, said := stop(); code != ExitDone || strings.Contains(said, serviceToken) || !strings.Contains(said, "the configuration stays as it was") {
		t.Errorf("exit code %d, and it said %s", code, said)
	}
	if info, err := w.inspector.GetTaskInfo("slow", "first"); err != nil || info.Retried != 0 {
		t.Errorf("%+v, %v; want one attempt", info, err)
	}
}

func TestServiceCheck(t *testing.T) {
	w := newWorld(t)
	good := w.serviceFile("good.yaml", "")
	bad := w.serviceFile("bad.yaml", "queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\n")
	if r := w.raw(t.Context(), "service", "check", good); r.code != ExitDone || r.err != "" || !strings.HasSuffix(r.out, "good.yaml: nothing is wrong\n") {
		t.Errorf("got %+v", r)
	}
	if err := os.Chmod(good, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := w.raw(t.Context(), "service", "check", good); r.code != ExitDone || !strings.Contains(r.err, "good.yaml:3:28: warning: a secret stands in a file") {
		t.Errorf("got %+v", r)
	}
	r := w.raw(t.Context(), "service", "check", bad)
	want := bad + `:4:14: "max_runs" means nothing here: did you mean "max_run"?` + "\n" +
		bad + `:5:20: "5" is no length of time: write it with a unit, as in 30s, 5m or 1h30m` + "\n"
	if r.code != ExitFailed || r.out != want || r.err != "" {
		t.Errorf("got %+v, want %s", r, want)
	}
	for _, args := range [][]string{
		{"service"}, {"service", "check"}, {"service", "check", filepath.Join(w.home, "none")}, {"service", "--config", filepath.Join(w.home, "none")},
		{"service", "--config", bad}, {"service", "--config", good, "--log-format", "xml"}, {"service", "--config", good, "--log-level", "loud"}, {"service", "start"},
	} {
		if r := w.raw(t.Context(), args...); r.code != ExitUsage || r.out != "" || r.err == "" {
			t.Errorf("%v: got %+v", args, r)
		}
	}
}

// Its document is valid JSON, from the binary as it is.
func TestServiceOpenAPI(t *testing.T) {
	w := newWorld(t)
	url, _, stop := w.service(w.serviceFile("service.yaml", ""))
	if status, body := fetch(t, url+"/openapi.json"); status != http.StatusOK || !json.Valid([]byte(body)) {
		t.Errorf("%d %s", status, body)
	}
	if code, _ := stop(); code != ExitDone {
		t.Errorf("exit code %d", code)
	}
}
