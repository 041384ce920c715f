//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
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

// service runs the service with a configuration file until stop is called. stop returns its exit
// code and standard error.
func (w *world) service(file string) (url string, stderr *signalWriter, stop func() (int, string)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	listening, code := make(chan struct{}), make(chan int, 1)
	stderr = newSignalWriter("asynq: service at ", 1, sync.OnceFunc(func() { close(listening) }))
	go func() {
		code <- Run(ctx, []string{"service", "--config", file}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: stderr, Env: os.LookupEnv})
	}()
	stop = func() (int, string) {
		cancel()
		return <-code, stderr.String()
	}
	select {
	case <-listening:
	case c := <-code:
		cancel()
		w.t.Fatalf("the service exited with %d: %s", c, stderr)
	}
	return regexp.MustCompile(`service at (https?://\S+)`).FindStringSubmatch(stderr.String())[1], stderr, stop
}

// serviceFile writes a configuration file that ends with more.
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

// post posts JSON, and returns the status and the body of the response.
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-ticker.C {
		if info, err := w.inspector.GetTaskInfo(queue, id); err == nil && info.State == asynq.TaskStateCompleted {
			return string(info.Result)
		}
	}
	w.t.Fatalf("task %s is not completed", id)
	return ""
}

// The service runs a task that is enqueued over HTTP. SIGHUP reloads the configuration without
// losing the active task.
func TestServiceRunsAndReloads(t *testing.T) {
	w := newWorld(t)
	release := filepath.Join(w.home, "release")
	if err := syscall.Mkfifo(release, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := "hosted:\n  cmd:\n    commands:\n      slow: {path: /bin/cat, args: ['" + release + "']}\n"
	file := w.serviceFile("service.yaml", slow)
	url, stderr, stop := w.service(file)

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
	// A configuration with errors changes nothing.
	w.serviceFile("service.yaml", "hosted: 5\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(stderr.String(), "keeping the previous configuration") && time.Now().Before(deadline); {
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
	if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, serviceToken) || !strings.Contains(stderr, "keeping the previous configuration") {
		t.Errorf("exit code %d, standard error %s", code, stderr)
	}
	if info, err := w.inspector.GetTaskInfo("slow", "first"); err != nil || info.Retried != 0 {
		t.Errorf("%+v, %v; want one attempt", info, err)
	}
}

func TestServiceCheck(t *testing.T) {
	w := newWorld(t)
	good := w.serviceFile("good.yaml", "")
	bad := w.serviceFile("bad.yaml", "queues: {a: {max_runs: 1}}\nlimits: {max_wait: 5}\n")
	if r := w.raw(t.Context(), "service", "check", good); r.code != ExitDone || r.err != "" || !strings.HasSuffix(r.out, "good.yaml: no errors\n") {
		t.Errorf("got %+v", r)
	}
	if err := os.Chmod(good, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := w.raw(t.Context(), "service", "check", good); r.code != ExitDone || !strings.Contains(r.err, "good.yaml:3:28: warning: this file contains a secret") {
		t.Errorf("got %+v", r)
	}
	r := w.raw(t.Context(), "service", "check", bad)
	want := bad + `:4:14: unknown key "max_runs": did you mean "max_run"?` + "\n" +
		bad + `:5:20: "5" is not a duration: use a unit, as in 30s, 5m or 1h30m` + "\n"
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

// The commands that init prints work in a shell.
func TestServiceInit(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.home, "it's new.yaml")
	r := w.raw(t.Context(), "service", "init", file)
	if r.code != ExitDone || r.err != "" {
		t.Fatalf("got %+v", r)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info, err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.raw(t.Context(), "service", "check", file); r.code != ExitDone || r.err != "" {
		t.Errorf("check: got %+v", r)
	}
	// Run only the printed commands that need neither the service nor the binary.
	var lines []string
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "TOKEN=") {
			lines = append(lines, line, `printf %s "$TOKEN"`)
		}
	}
	token, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(lines, "")).CombinedOutput()
	if err != nil || len(token) != 48 || !strings.Contains(string(before), "secret: "+string(token)+"\n") {
		t.Errorf("the printed command gives the token %q, %v", token, err)
	}
	if strings.Contains(r.out, string(token)) {
		t.Errorf("the secret is printed: %s", r.out)
	}
	if again := w.raw(t.Context(), "service", "init", file); again.code != ExitFailed || again.out != "" || !strings.Contains(again.err, "use --force") {
		t.Errorf("again: got %+v", again)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file changed: %v", err)
	}
	if forced := w.raw(t.Context(), "service", "init", "--force", file); forced.code != ExitDone {
		t.Errorf("--force: got %+v", forced)
	}
	if none := w.raw(t.Context(), "service", "init", filepath.Join(w.home, "none", "service.yaml")); none.code != ExitFailed || none.out != "" {
		t.Errorf("in a missing directory: got %+v", none)
	}
}

// The OpenAPI document of the service is valid JSON.
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
