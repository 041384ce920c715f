// Command quickstart shows the task queue in one program: it enqueues a few tasks, processes them,
// and prints each step. It needs only Go:
//
//	go run ./examples/quickstart
//
// The tasks are stored in a Redis that is embedded in the program. To use a real one, set its URL:
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/quickstart
//
// On a shared Redis, each run uses a namespace of its own and deletes it at the end. The program
// exits after a few seconds, with status 1 if a task had an unexpected outcome.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// maxDuration bounds a run. A successful one takes about three seconds.
	maxDuration = 15 * time.Second
	// shutdownTimeout bounds the wait for handlers at the end. In a successful run, all have
	// returned by then.
	shutdownTimeout = 2 * time.Second
	retryDelay      = time.Second
	scheduleDelay   = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	err := run(ctx)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run enqueues the tasks, processes them and checks the outcomes.
func run(ctx context.Context) error {
	redis, err := connect()
	if err != nil {
		return err
	}
	defer redis.close()
	log := newJournal(os.Stdout)
	log.title("asynq quickstart on " + redis.name)

	inspector := asynq.NewInspector(redis.opt)
	defer inspector.Close()

	// First the tasks: they wait in Redis until a server fetches them.
	client := asynq.NewClient(redis.opt)
	defer client.Close()
	enqueued, err := enqueueAll(ctx, client, log)
	if err != nil {
		return err
	}

	// Then the server. It fetches from three queues by weight, and runs up to four handlers at
	// once.
	events := make(chan event, 16)
	server := asynq.NewServer(redis.opt, asynq.Config{
		Concurrency:              4,
		Queues:                   weights,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return retryDelay },
		DelayedTaskCheckInterval: 200 * time.Millisecond,
		ShutdownTimeout:          shutdownTimeout,
		LogLevel:                 asynq.ErrorLevel,
	})
	if err := server.Start(newMux(events)); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	waitErr := awaitSuccesses(ctx, events, enqueued, log)
	// Shutdown returns when Redis has the outcome of each finished task, so that the inspector
	// sees it.
	server.Shutdown()
	if waitErr != nil {
		return waitErr
	}

	if err := readResult(inspector, log); err != nil {
		return err
	}
	log.summary()
	return log.got.check()
}

// enqueueAll enqueues the tasks and returns the number of accepted ones.
func enqueueAll(ctx context.Context, client *asynq.Client, log *journal) (int, error) {
	welcome := newTask(typeWelcome, email{To: "ada@example.com", Subject: "Welcome"})
	invoice := newTask(typeInvoice, email{To: "bob@example.com", Subject: "Your invoice"})
	reminder := newTask(typeReminder, email{To: "grace@example.com", Subject: "See you tomorrow"})
	thumbnail := newTask(typeImage, picture{Name: "cat.png", Width: 640, Height: 480})
	sales := newTask(typeReport, report{Title: "Sales", Amounts: []int{1200, 830, 2470}})

	for _, e := range []struct {
		note string
		task *asynq.Task
		opts []asynq.Option
	}{
		{"urgent", welcome, []asynq.Option{asynq.Queue(queueCritical)}},
		{"fails at first", invoice, []asynq.Option{asynq.Queue(queueCritical), asynq.MaxRetry(3)}},
		{"in 2 s", reminder, []asynq.Option{asynq.Queue(queueDefault), asynq.ProcessIn(scheduleDelay)}},
		{"unique", thumbnail, []asynq.Option{asynq.Queue(queueDefault), asynq.Unique(time.Minute)}},
		{"the same again", thumbnail, []asynq.Option{asynq.Queue(queueDefault), asynq.Unique(time.Minute)}},
		{"keeps its result", sales, []asynq.Option{asynq.Queue(queueLow), asynq.TaskID(reportID), asynq.Retention(time.Hour)}},
	} {
		info, err := client.EnqueueContext(ctx, e.task, e.opts...)
		switch {
		case errors.Is(err, asynq.ErrDuplicateTask):
			log.duplicate(e.task, e.note, err)
		case err != nil:
			return 0, fmt.Errorf("enqueue %s: %w", e.task.Type(), err)
		default:
			log.enqueue(e.task, e.note, info)
		}
	}
	return log.got.enqueued, nil
}

// awaitSuccesses prints the events of the handlers until n tasks have succeeded, or until ctx ends.
func awaitSuccesses(ctx context.Context, events <-chan event, n int, log *journal) error {
	for log.got.succeeded < n {
		select {
		case e := <-events:
			log.handle(e)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d tasks succeeded: %w", log.got.succeeded, n, context.Cause(ctx))
		}
	}
	return nil
}

// readResult prints the result that the completed report holds.
func readResult(inspector *asynq.Inspector, log *journal) error {
	info, err := inspector.GetTaskInfo(queueLow, reportID)
	if err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	log.result(info)
	return nil
}
