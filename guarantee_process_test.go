package asynq_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// crashableEnv names the Redis of a server that runs in a process of its own, to be killed.
const crashableEnv = "ASYNQ_TEST_CRASHABLE"

// runCrashable is the main function of that process. It prints the ID of each task that it starts, and finishes none.
func runCrashable() {
	opt, err := asynq.ParseRedisURI(os.Getenv(crashableEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	srv := asynq.NewServer(opt, asynq.Config{
		Concurrency:   10,
		LeaseDuration: time.Second,
		Logger:        asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	handler := func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		fmt.Println(id)
		select {}
	}
	if err := srv.Start(asynq.HandlerFunc(handler)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process that started this one ends
	os.Exit(0)
}

// crashable is a process with a server.
type crashable struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	started chan string // IDs of the tasks that it runs
}

// startCrashable starts a process with a server on the site's Redis.
func (s *site) startCrashable() *crashable {
	s.t.Helper()
	p := &crashable{cmd: exec.Command(os.Args[0]), started: make(chan string, 100)}
	p.cmd.Env = append(os.Environ(), crashableEnv+"="+s.URI())
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.started)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.started <- strings.TrimSpace(lines.Text())
		}
	}()
	s.t.Cleanup(p.kill)
	return p
}

// awaitTasks waits until the process runs n more tasks.
func (p *crashable) awaitTasks(s *site, n int) {
	s.t.Helper()
	for range n {
		if id := receive(s, p.started, "a process to start %d tasks", n); id == "" {
			s.t.Fatal("the process ended by itself")
		}
	}
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *crashable) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	for range p.started {    // until its output ends
	}
	_ = p.cmd.Wait() // tells that it was killed
	_ = p.stdin.Close()
}

// TestCrashableProcess makes sure that what other tests kill would otherwise hold its tasks for good.
func TestCrashableProcess(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		p := s.startCrashable()
		p.awaitTasks(s, 1)
		lease := s.redis.ZScore(context.Background(), s.queue.Lease(), "t").Val()
		s.eventually(func() bool {
			return s.redis.ZScore(context.Background(), s.queue.Lease(), "t").Val() > lease
		}, "the process to extend its lease")
		p.kill()
		s.crashRecovery()
	})
}

// crashRecovery has a server finish what others left behind.
func (s *site) crashRecovery() *tally {
	s.t.Helper()
	var ran tally
	s.serve(asynq.Config{LeaseDuration: time.Second}, ran.handle)
	s.awaitEmpty()
	return &ran
}
