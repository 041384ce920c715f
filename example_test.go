package asynq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// embeddedRedis starts an in-memory Redis, so that the examples run anywhere.
func embeddedRedis() (opt asynq.RedisClientOpt, stop func()) {
	m, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return asynq.RedisClientOpt{Addr: m.Addr()}, m.Close
}

// WelcomeEmail is the payload of the examples' tasks.
type WelcomeEmail struct {
	UserID int `json:"user_id"`
}

func Example() {
	redis, stop := embeddedRedis()
	defer stop()

	// The web app:
	client := asynq.NewClient(redis)
	defer client.Close()
	payload, _ := json.Marshal(WelcomeEmail{UserID: 42})
	if _, err := client.Enqueue(asynq.NewTask("email:welcome", payload)); err != nil {
		log.Fatal(err)
	}

	// The worker:
	sent := make(chan int)
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:welcome", func(ctx context.Context, t *asynq.Task) error {
		var email WelcomeEmail
		if err := json.Unmarshal(t.Payload(), &email); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err) // it will be no better next time
		}
		sent <- email.UserID
		return nil
	})
	srv := asynq.NewServer(redis, asynq.Config{Concurrency: 10, LogLevel: asynq.ErrorLevel})
	if err := srv.Start(mux); err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	fmt.Println("welcome, user", <-sent)
	// Output: welcome, user 42
}

func ExampleClient_Enqueue_options() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()

	task := asynq.NewTask("report:monthly", []byte(`{"month":"2026-10"}`), asynq.MaxRetry(5))
	info, err := client.Enqueue(task,
		asynq.Queue("low"),
		asynq.ProcessIn(10*time.Minute), // not before
		asynq.Timeout(time.Minute),      // of each attempt
		asynq.Unique(time.Hour),         // one at a time
		asynq.Retention(24*time.Hour),   // keep it, with its result
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Queue, info.State, info.MaxRetry)

	_, err = client.Enqueue(task, asynq.Queue("low"), asynq.Unique(time.Hour))
	fmt.Println(errors.Is(err, asynq.ErrDuplicateTask))
	// Output:
	// low scheduled 5
	// true
}

func ExampleClient_BatchEnqueueContext() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()

	var tasks []*asynq.Task
	for i := range 3 {
		tasks = append(tasks, asynq.NewTask("thumbnail", fmt.Append(nil, i)))
	}
	for _, result := range client.BatchEnqueueContext(context.Background(), tasks, asynq.Queue("images")) {
		if result.Err != nil {
			log.Fatal(result.Err)
		}
		fmt.Println(result.TaskInfo.Queue, result.TaskInfo.State, string(result.TaskInfo.Payload))
	}
	// Output:
	// images pending 0
	// images pending 1
	// images pending 2
}

func ExampleServer() {
	redis, stop := embeddedRedis()
	defer stop()

	srv := asynq.NewServer(redis, asynq.Config{
		Concurrency: 50,
		Queues:      map[string]int{"critical": 6, "default": 3, "low": 1},
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
			retried, _ := asynq.GetRetryCount(ctx)
			slog.Warn("task failed", "type", t.Type(), "retried", retried, "error", err)
		}),
		Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))),
	})
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			start := time.Now()
			err := next.ProcessTask(ctx, t)
			slog.Debug("task processed", "type", t.Type(), "took", time.Since(start), "error", err)
			return err
		})
	})
	if err := srv.Start(mux); err != nil { // or srv.Run(mux), which waits for TERM or INT
		log.Fatal(err)
	}
	srv.Shutdown()
	// Output:
}

func ExampleRetryAfter() {
	limited := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return fmt.Errorf("the API is busy: %w", asynq.RetryAfter(30*time.Second))
	})
	fmt.Println(limited.ProcessTask(context.Background(), asynq.NewTask("sync", nil)))
	// Output: the API is busy: asynq: retry after 30s
}

func ExampleResultWriter() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()

	written := make(chan string)
	srv := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.ErrorLevel})
	err := srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if _, err := t.ResultWriter().Write([]byte("12 pages")); err != nil {
			return err
		}
		written <- t.ResultWriter().TaskID()
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	if _, err := client.Enqueue(asynq.NewTask("report", nil), asynq.TaskID("report-7"), asynq.Retention(time.Hour)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-written)
	// Output: report-7
}

func ExampleParseRedisURI() {
	opt, err := asynq.ParseRedisURI("redis://:secret@localhost:6380/2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(opt.(asynq.RedisClientOpt).Addr, opt.(asynq.RedisClientOpt).DB)
	// Output: localhost:6380 2
}
