package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/tasks"
)

// childEnv holds the address of Redis in a child process, which is the test binary as a worker. It
// runs until SIGTERM or SIGKILL, and reports the start and end of attempts on standard output.
const childEnv = "TASKS_TEST_CHILD"

// lease is short so that tasks of dead workers are recovered soon, but longer than a busy machine
// stops the workers.
const lease = 4 * time.Second

// step is the payload of the test tasks.
type step struct {
	N    int  // number in the queue
	Fail int  // number of failing attempts
	Hang bool // the first attempt ends only when canceled
}

func soon(int, error) time.Duration { return time.Millisecond }

// Both queues run one task at a time; the first one is strictly ordered.
var (
	strict = tasks.Define[step]("strict", tasks.InOrder(), tasks.RetryDelay(soon))
	serial = tasks.Define[step]("serial", tasks.MaxRun(1), tasks.RetryDelay(soon))
)

func runChild(addr string) int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has exited
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	work := func(queue string) func(context.Context, step) error {
		return func(ctx context.Context, s step) error {
			attempt, _ := asynq.GetRetryCount(ctx)
			fmt.Println("begin", queue, s.N, attempt, false, time.Now().UnixNano()) // one write, which survives a kill
			err := s.do(ctx, attempt)
			fmt.Println("end", queue, s.N, attempt, err == nil, time.Now().UnixNano())
			return err
		}
	}
	worker, err := tasks.Start(ctx, asynq.RedisClientOpt{Addr: addr}, tasks.Table{
		strict.Handle(work("strict")),
		serial.Handle(work("serial")),
	}, tasks.Concurrency(4), tasks.Configure(func(cfg *asynq.Config) {
		cfg.LeaseDuration, cfg.LogLevel = lease, asynq.ErrorLevel
	}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready - 0 0 false 0")
	worker.Wait()
	return 0
}

func (s step) do(ctx context.Context, attempt int) error {
	length := 3 * time.Millisecond // long enough to overlap
	if s.Hang && attempt == 0 {
		length = timeout
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(length):
	}
	if attempt < s.Fail {
		return errors.New("not yet")
	}
	return nil
}
