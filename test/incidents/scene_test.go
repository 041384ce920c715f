package incidents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/chaos/skew"
	"github.com/asynq-go/asynq/x/health"
)

// programs are built once for all incidents.
var programs struct {
	dir           string
	asynq, worker func() (string, error)
	skewed        func() (string, error)
}

func buildPrograms(dir string) {
	build := func(name, pkg string) func() (string, error) {
		return sync.OnceValues(func() (string, error) {
			path := filepath.Join(dir, name)
			if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
				return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
			}
			return path, nil
		})
	}
	programs.asynq, programs.worker = build("asynq", "../../x/cmd/asynq"), build("worker", "./worker")
	programs.skewed = sync.OnceValues(func() (string, error) { return skew.Build(context.Background(), dir, "./worker") })
}

// scene is the place of an incident: a Redis with its servers, clients and tools.
type scene struct {
	t         *testing.T
	addr      string
	settings  string // file of thresholds
	health    health.Settings
	client    *asynq.Client
	inspector *asynq.Inspector
	worker    string // program
}

func newScene(t *testing.T, i incident) *scene {
	t.Helper()
	redis := proctest.StartRedis(t, i.redis...)
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}
	s := &scene{t: t, addr: redis.Addr(), client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt)}
	t.Cleanup(func() {
		s.must(s.client.Close())
		s.must(s.inspector.Close())
	})
	text := i.settings
	if text == "" {
		text = "{}"
	}
	var err error
	s.health, err = health.ParseSettings([]byte(text))
	s.must(err)
	s.settings = filepath.Join(t.TempDir(), "health.json")
	s.must(os.WriteFile(s.settings, []byte(text), 0o600))
	s.worker, err = programs.worker()
	s.must(err)
	return s
}

// with returns the scene for a subtest.
func (s *scene) with(t *testing.T) *scene {
	sub := *s
	sub.t = t
	return &sub
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) until(what string, cond func() bool) {
	s.t.Helper()
	proctest.Eventually(s.t, what, cond)
}

// enqueue enqueues n tasks.
func (s *scene) enqueue(n int, queue, typename, payload string) {
	s.t.Helper()
	for range n {
		_, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), asynq.Queue(queue))
		s.must(err)
	}
}

// fill enqueues tasks until Redis is full.
func (s *scene) fill(queue, typename, payload string) {
	s.t.Helper()
	for {
		_, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), asynq.Queue(queue))
		if errors.Is(err, asynq.ErrRedisFull) {
			return
		}
		s.must(err)
	}
}

// keepEnqueuing enqueues tasks until the test ends.
func (s *scene) keepEnqueuing(queue, typename, payload string) {
	done, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := s.client.Enqueue(asynq.NewTask(typename, []byte(payload)), asynq.Queue(queue)); err != nil {
				stopped <- err
				return
			}
			select {
			case <-tick.C:
			case <-done:
				stopped <- nil
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		close(done)
		s.must(<-stopped)
	})
}

// queue returns the state of a queue.
func (s *scene) queue(name string) *asynq.QueueInfo {
	s.t.Helper()
	info, err := s.inspector.GetQueueInfo(name)
	s.must(err)
	return info
}

// reported waits until a check finds the incident.
func (s *scene) reported(i incident) {
	s.t.Helper()
	began := time.Now()
	proctest.Until(s.t, "the cause of the incident", func() error {
		report, err := health.Check(s.t.Context(), s.inspector, s.health)
		s.must(err)
		if len(report.Causes) == 0 {
			return errors.New("there are no causes")
		}
		if complaint := i.says(report.Causes[0]); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
	s.t.Logf("reported after %v", time.Since(began).Round(time.Millisecond))
}

// process is a worker process.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// server starts a server, and waits until it runs.
func (s *scene) server(args ...string) *process {
	s.t.Helper()
	return s.running(func() *process { return s.start(s.worker, nil, args...) })
}

// skewed starts a server whose clock is ahead.
func (s *scene) skewed(ahead time.Duration, args ...string) *process {
	s.t.Helper()
	program, err := programs.skewed()
	s.must(err)
	return s.running(func() *process { return s.start(program, []string{skew.Env(ahead)}, args...) })
}

// running waits until a further server is registered.
func (s *scene) running(start func() *process) *process {
	s.t.Helper()
	count := func() int {
		processes, err := s.inspector.Processes(s.t.Context(), 0)
		s.must(err)
		return len(processes)
	}
	before := count()
	p := start()
	s.until("the server to run", func() bool { return count() > before })
	return p
}

// restarted starts a server that a supervisor restarts when it dies.
func (s *scene) restarted(args ...string) {
	s.t.Helper()
	done, stopped := make(chan struct{}), make(chan struct{})
	p := s.start(s.worker, nil, args...)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-p.gone:
				if p = s.launch(s.worker, nil, args...); p == nil {
					return
				}
			case <-done:
				p.kill()
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		close(done)
		<-stopped
	})
}

// start starts a worker process, which ends with the test.
func (s *scene) start(program string, env []string, args ...string) *process {
	s.t.Helper()
	p := s.launch(program, env, args...)
	if p == nil {
		s.t.FailNow()
	}
	s.t.Cleanup(p.kill)
	return p
}

// launch starts a worker process. It returns nil if it cannot.
func (s *scene) launch(program string, env []string, args ...string) *process {
	cmd := exec.Command(program, append([]string{"--redis", s.addr}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var output proctest.Log
	cmd.Stdout, cmd.Stderr = &output, &output
	proctest.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		s.t.Errorf("starting a worker: %v", err)
		return nil
	}
	p := &process{cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_ = cmd.Wait() // it ends by a signal
	}()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("worker %d printed:\n%s", cmd.Process.Pid, output.String())
		}
	})
	return p
}

// kill ends the process like a crash of its host.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.gone
}
