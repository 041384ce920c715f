package rate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/rate"
)

func ExampleLimiter_Middleware() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	limiter := rate.NewLimiter(redis, "mail-provider", rate.PerSecond(50))
	defer limiter.Close()

	mux := asynq.NewServeMux()
	mux.Use(limiter.Middleware(func(_ context.Context, task *asynq.Task) string {
		return task.Headers()["customer"] // a bucket for each customer; tasks without one are not limited
	}))
}

func ExampleSemaphore() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	sema := rate.NewSemaphore(redis, "report-database", 3)
	defer sema.Close()

	mux := asynq.NewServeMux()
	mux.HandleFunc("report:", func(ctx context.Context, task *asynq.Task) error {
		ok, err := sema.Acquire(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return asynq.Snooze(10 * time.Second)
		}
		defer func() { _ = sema.Release(ctx) }() // if it fails, the deadline does it
		return makeReport(ctx, task)
	})
}

func ExampleSemaphore_Middleware() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	sema := rate.NewSemaphore(redis, "report-database", 3)
	defer sema.Close()

	handler := sema.Middleware(10 * time.Second)(asynq.HandlerFunc(makeReport))
	mux := asynq.NewServeMux()
	mux.Handle("report:", handler)
}

func ExampleLimiter_Allow() {
	fake, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer fake.Close()
	limiter := rate.NewLimiter(asynq.RedisClientOpt{Addr: fake.Addr()}, "sign-in",
		rate.Limit{Events: 3, Per: time.Hour, Burst: 2})
	defer limiter.Close()

	for range 3 {
		result, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 20m0s
}

func makeReport(context.Context, *asynq.Task) error { return nil }
