package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/tasks"
)

// WelcomeParams are the parameters of Welcome.
type WelcomeParams struct {
	User int64 `json:"user"`
}

// Welcome greets new users.
var Welcome = tasks.Define[WelcomeParams]("email:welcome",
	tasks.MaxRun(10),
	tasks.MaxRetry(5),
	tasks.Timeout(time.Minute),
)

// Deliver sends messages to a partner, in order.
var Deliver = tasks.Define[string]("partner:deliver",
	tasks.InOrder(),
	tasks.RetryDelay(func(n int, _ error) time.Duration { return min(time.Second<<min(n, 6), time.Minute) }),
)

// Hook is an event for a customer.
type Hook struct {
	Customer string `json:"customer"`
	Event    string `json:"event"`
}

// Notify delivers hooks, at most three of a customer at once.
var Notify = tasks.Define[Hook]("hook:deliver",
	tasks.PartitionBy(func(h Hook) string { return h.Customer }),
	tasks.Partitions(asynq.PartitionConfig{Concurrency: 3}),
)

// Shrink returns the path of the smaller image.
var Shrink = tasks.DefineResult[string, string]("image:shrink", tasks.Retention(10*time.Minute))

func send(context.Context, int64) error     { return nil }
func deliver(context.Context, string) error { return nil }

func logged(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		slog.InfoContext(ctx, "task", "name", task.Type(), "error", err)
		return err
	})
}

func ExampleStart() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	worker, err := tasks.Start(ctx, redis, tasks.Table{
		Welcome.Handle(func(ctx context.Context, p WelcomeParams) error { return send(ctx, p.User) }),
		Deliver.Handle(deliver),
		Shrink.Handle(func(_ context.Context, image string) (string, error) { return "small/" + image, nil }),
	}, tasks.Use(logged), tasks.Concurrency(20))
	if err != nil {
		log.Fatal(err)
	}
	worker.Wait() // ends with ctx
}

func ExampleDefinition_Enqueue() {
	ctx := context.Background()
	client := tasks.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer client.Close()

	info, err := Welcome.Enqueue(ctx, client, WelcomeParams{User: 42}, asynq.TaskID("welcome-42"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Queue, info.ID)
}

func ExampleClient_Enqueue() {
	ctx := context.Background()
	client := tasks.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer client.Close()

	_, err := client.Enqueue(ctx, tasks.Request{
		ID:     "welcome-42",
		Name:   "email:welcome",
		Params: map[string]int{"user": 42},
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleResultDefinition_Wait() {
	client := tasks.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	info, err := Shrink.Enqueue(ctx, client, "cat.png")
	if err != nil {
		log.Fatal(err)
	}
	small, err := Shrink.Wait(ctx, client, info.ID)
	switch {
	case errors.Is(err, tasks.ErrArchived):
		log.Fatal("retries exhausted: ", err)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(small)
}

// Tasks can share options.
func ExampleOptions() {
	shop := tasks.Options(tasks.QueuePrefix("shop:"), tasks.MaxRetry(5))
	orders := tasks.Options(shop, tasks.Queue("orders"), tasks.InOrder())
	placed := tasks.Define[int64]("order:placed", orders)
	paid := tasks.Define[int64]("order:paid", orders)

	fmt.Println(placed.Queue(), paid.Queue())
	// Output: shop:orders shop:orders
}
