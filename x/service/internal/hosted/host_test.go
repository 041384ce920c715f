//go:build unix

package hosted

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// newHost returns an env without a server, and a Host to configure.
func newHost(t *testing.T) (*env, *Host) {
	t.Helper()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	s := &env{t: t, client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt), queues: map[string]string{}}
	h := NewHost(opt, quiet)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	return s, h
}

// apply replaces the configuration of the host.
func (s *env) apply(h *Host, concurrency int, c Config) {
	s.t.Helper()
	set, err := New(c, quiet)
	if err != nil {
		s.t.Fatal(err)
	}
	settings := Settings{Concurrency: concurrency, Weights: map[string]int{}, Limits: map[string]asynq.QueueConfig{}, Grace: c.Grace()}
	for typename, queue := range c.Queues() {
		s.queues[typename], settings.Weights[queue] = queue, 1
	}
	if err := h.Apply(set, settings); err != nil {
		s.t.Fatal(err)
	}
}

// Active tasks finish with the configuration that they started with, in their first attempt; later
// tasks use the new one.
func TestApplyWhileWorking(t *testing.T) {
	t.Parallel()
	s, h := newHost(t)
	p := newPids(t)
	before := Config{Commands: map[string]Command{"cmd": {Args: []string{p.path}, Path: script(t, `echo $$ >>"$1"; read line <"$1.go"; echo before`)}}}
	if err := exec.Command("mkfifo", p.path+".go").Run(); err != nil {
		t.Fatal(err)
	}
	s.apply(h, 1, before)
	for i, change := range []struct {
		concurrency int
		more        string // additional hosted type
	}{{1, ""}, {2, ""}, {2, "other"}} {
		first := s.enqueue("cmd", "")
		p.next(t)
		after := Config{Commands: map[string]Command{"cmd": {Path: "/bin/echo", Args: []string{"after"}}}}
		if change.more != "" {
			after.Commands[change.more] = Command{Path: "/bin/echo", Args: []string{"other"}}
		}
		s.apply(h, change.concurrency, after)
		if change.concurrency > 1 { // with one slot and one server, it waits
			if info := s.run("cmd", ""); string(info.Result) != "after\n" {
				t.Errorf("%d: result %q", i, info.Result)
			}
		}
		if change.more != "" {
			if info := s.run(change.more, ""); string(info.Result) != "other\n" {
				t.Errorf("%d: result %q", i, info.Result)
			}
		}
		if err := os.WriteFile(p.path+".go", []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		info := s.ended(first)
		if expect(t, info, asynq.TaskStateCompleted, ""); string(info.Result) != "before\n" || info.Retried != 0 {
			t.Errorf("%d: result %q after %d retries", i, info.Result, info.Retried)
		}
		s.apply(h, change.concurrency, before)
	}
	s.apply(h, 1, Config{}) // hosts nothing
	if h.current != nil {
		t.Error("a server runs although nothing is hosted")
	}
}

// Tasks of a type that is hosted intermittently run while it is hosted and wait otherwise: none
// runs with a configuration that lacks the type.
func TestApplyUnderLoad(t *testing.T) {
	t.Parallel()
	s, h := newHost(t)
	calls := make(chan struct{}, 10000)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls <- struct{}{} }))
	t.Cleanup(server.Close)
	network := HTTP{AllowNetworks: loopback}
	with := Config{HTTP: network, Endpoints: map[string]Endpoint{"always": {URL: server.URL}, "at times": {URL: server.URL}}}
	without := Config{HTTP: network, Endpoints: map[string]Endpoint{"always": {URL: server.URL}}}
	s.apply(h, 4, with)
	enough, ended := make(chan struct{}), make(chan struct{})
	var tasks []*asynq.TaskInfo
	go func() {
		defer close(ended)
		for {
			select {
			case <-enough:
				return
			default:
			}
			for _, typename := range []string{"always", "at times"} {
				info, err := s.client.Enqueue(asynq.NewTask(typename, nil), asynq.Queue(typename), asynq.Retention(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				tasks = append(tasks, info)
			}
		}
	}()
	for range 30 {
		for _, c := range []Config{without, with} {
			s.apply(h, 4, c)
			for range 5 {
				<-calls
			}
		}
	}
	close(enough)
	<-ended
	for _, info := range tasks {
		if info = s.ended(info); info.State != asynq.TaskStateCompleted || info.Retried > 0 {
			t.Fatalf("task is %v after %d failures: %s", info.State, info.Retried, info.LastErr)
		}
	}
	t.Logf("%d tasks", len(tasks))
}

// A command that exceeds the shutdown timeout is stopped, and its task is pending again.
func TestShutdownStopsCommands(t *testing.T) {
	t.Parallel()
	for _, trap := range []string{"", "exit 0"} { // one ignores SIGTERM, the other exits with 0
		s, h := newHost(t)
		p := newPids(t)
		s.apply(h, 2, Config{Commands: map[string]Command{"cmd": {
			Grace: 500 * time.Millisecond, Args: []string{p.path},
			Path: script(t, `trap "`+trap+`" TERM; sleep 1000 & echo $! >>"$1"; echo $$ >>"$1"; while :; do wait; done`),
		}}})
		info := s.enqueue("cmd", "")
		child, self := p.next(t), p.next(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = h.Shutdown(ctx) // reports the incomplete shutdown
		for _, pid := range []int{child, self} {
			gone(t, pid)
		}
		now, err := s.inspector.GetTaskInfo(info.Queue, info.ID)
		if err != nil || now.State != asynq.TaskStatePending || now.Retried != 0 {
			t.Errorf("trap %q: got %+v, %v; want it pending", trap, now, err)
		}
	}
}

// childVariable makes the test binary run a command as a service does, for
// TestCommandDiesWithService.
const childVariable = "ASYNQ_TEST_HOSTED_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		_, _ = runGroup(context.Background(), exec.Command("/bin/sh", "-c", `echo $$ >>"$0"; exec sleep 1000`, path), nil, time.Second)
		return
	}
	os.Exit(m.Run())
}

// When a service is killed, its commands die.
func TestCommandDiesWithService(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		return // not Linux
	}
	p := newPids(t)
	service := exec.Command("/proc/self/exe")
	service.Env = []string{childVariable + "=" + p.path}
	var stderr strings.Builder
	service.Stderr = &stderr
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	pid := p.next(t)
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = service.Wait()
	gone(t, pid)
}
