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
	"github.com/asynq-go/asynq/x/service/tasks"
)

// childEnv is the address of Redis in a process that is a worker, until TERM ends it or it is killed. It is the test's binary again. It
// reports on its standard output when it begins and ends what.
const childEnv = "TASKS_TEST_CHILD"

// lease is short, so that what a dead worker held is soon another's.
const lease = 2 * time.Second

// step is what a task of the test does.
type step struct {
	N    int  // its number in its queue
	Fail int  // how many attempts fail
	Hang bool // the first attempt ends when it is told to
}

func soon(int, error) time.Duration { return time.Millisecond }

// The queues of the test: in both one task runs at a time; in the first, none overtakes one that failed.
var (
	strict = tasks.Define[step]("strict", tasks.InOrder(), tasks.RetryDelay(soon))
	serial = tasks.Define[step]("serial", tasks.MaxRun(1), tasks.RetryDelay(soon))
)

func runChild(addr string) int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone: so must this be
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	work := func(queue string) func(context.Context, step) error {
		return func(ctx context.Context, s step) error {
			attempt, _ := asynq.GetRetryCount(ctx)
			fmt.Println("begin", queue, s.N, attempt, false, time.Now().UnixNano()) // one write, which a kill does not undo
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
	length := 3 * time.Millisecond // so that others would overlap with it
	if s.Hang && attempt == 0 {
		length = patience
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
