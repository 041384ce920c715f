package guarantee_test

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
	"github.com/asynq-go/asynq/internal/testenv"
)

// crashableEnv is the environment variable with the Redis of the child process. Its
// value is a URI.
const crashableEnv = "ASYNQ_TEST_CRASHABLE"

// crashablePartitionsEnv makes the child process serve orderedPartitions.
const crashablePartitionsEnv = "ASYNQ_TEST_CRASHABLE_PARTITIONS"

var orderedPartitions = asynq.PartitionConfig{Ordered: true}

// countedType is the type of the tasks that a crashable process finishes.
const countedType = "counted"

// runCrashable is the main function of the child process, a server that the test kills. It prints
// the ID of each task that it starts, and finishes only those of countedType.
func runCrashable() {
	opt, err := asynq.ParseRedisURI(os.Getenv(crashableEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cfg := asynq.Config{
		Concurrency:   10,
		LeaseDuration: time.Second,
		Logger:        asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}
	if os.Getenv(crashablePartitionsEnv) != "" {
		cfg.QueueConfigs = map[string]asynq.QueueConfig{"default": {Partitions: &orderedPartitions}}
	}
	srv := asynq.NewServer(opt, cfg)
	handler := func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		fmt.Println(id)
		if task.Type() == countedType {
			return nil
		}
		select {}
	}
	if err := srv.Start(asynq.HandlerFunc(handler)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent exits
	os.Exit(0)
}

// crashable is a child process with a server.
type crashable struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	started chan string // IDs of the tasks that started
}

// startCrashable starts a child process with a server on the Redis of env, and further environment
// variables.
func startCrashable(env *testenv.Env, vars ...string) *crashable {
	env.T.Helper()
	p := &crashable{cmd: exec.Command(os.Args[0]), started: make(chan string, 100)}
	p.cmd.Env = append(append(os.Environ(), crashableEnv+"="+env.URI()), vars...)
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		env.T.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		env.T.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		env.T.Fatal(err)
	}
	go func() {
		defer close(p.started)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.started <- strings.TrimSpace(lines.Text())
		}
	}()
	env.T.Cleanup(p.kill)
	return p
}

// awaitTasks waits until the process runs n more tasks.
func (p *crashable) awaitTasks(env *testenv.Env, n int) {
	env.T.Helper()
	for range n {
		if id := testenv.Await(env, p.started, "the child process to start %d tasks", n); id == "" {
			env.T.Fatal("the child process exited")
		}
	}
}

// kill ends the process with SIGKILL and waits until it has exited.
func (p *crashable) kill() {
	_ = p.cmd.Process.Kill() // it may have exited
	for range p.started {    // until its output ends
	}
	_ = p.cmd.Wait() // returns that it was killed
	_ = p.stdin.Close()
}

// The child process extends its leases, so that only its death makes them expire.
func TestCrashableProcess(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		p := startCrashable(env)
		p.awaitTasks(env, 1)
		lease := env.RDB.ZScore(context.Background(), env.Queue.Lease(), "t").Val()
		env.Eventually(func() bool {
			return env.RDB.ZScore(context.Background(), env.Queue.Lease(), "t").Val() > lease
		}, "the child process to extend its lease")
		p.kill()
		finishCrashed(env)
	})
}

// finishCrashed runs a server that finishes the tasks of crashed servers.
func finishCrashed(env *testenv.Env) *testenv.Tally {
	env.T.Helper()
	var ran testenv.Tally
	env.Serve(asynq.Config{LeaseDuration: time.Second}, ran.Handle)
	env.AwaitEmpty()
	return &ran
}
