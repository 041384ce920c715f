package asynq_test

import (
	"bytes"
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

// WelcomeEmail is the payload of a task.
type WelcomeEmail struct {
	UserID int `json:"user_id"`
}

func Example() {
	redis, stop := embeddedRedis()
	defer stop()

	// In the web app:
	client := asynq.NewClient(redis)
	defer client.Close()
	payload, _ := json.Marshal(WelcomeEmail{UserID: 42})
	if _, err := client.Enqueue(asynq.NewTask("email:welcome", payload)); err != nil {
		log.Fatal(err)
	}

	// In the worker:
	sent := make(chan int)
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:welcome", func(ctx context.Context, t *asynq.Task) error {
		var email WelcomeEmail
		if err := json.Unmarshal(t.Payload(), &email); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err) // a retry cannot succeed
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
		asynq.ProcessIn(10*time.Minute), // earliest start
		asynq.Timeout(time.Minute),      // per attempt
		asynq.Unique(time.Hour),         // one such task at a time
		asynq.Retention(24*time.Hour),   // keep the task and its result
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
	if err := srv.Start(mux); err != nil { // or srv.Run(mux), which waits for SIGTERM or SIGINT
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

func ExampleGroupAggregator() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()

	// The events of a user within a minute become one mail. Each task names its group:
	for _, event := range []string{"liked", "shared", "followed"} {
		if _, err := client.Enqueue(asynq.NewTask("notify", []byte(event)), asynq.Group("user:42")); err != nil {
			log.Fatal(err)
		}
	}

	// The worker aggregates the tasks of a group into one:
	mailed := make(chan string)
	srv := asynq.NewServer(redis, asynq.Config{
		GroupGracePeriod: time.Minute,      // after a minute without a new task,
		GroupMaxDelay:    10 * time.Minute, // or ten minutes after the first one,
		GroupMaxSize:     3,                // or at three tasks
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			events := make([][]byte, len(tasks))
			for i, t := range tasks {
				events[i] = t.Payload()
			}
			return asynq.NewTask("mail", fmt.Appendf(nil, "%s: %d events: %s", group, len(tasks), bytes.Join(events, []byte(", "))))
		}),
		LogLevel: asynq.ErrorLevel,
	})
	err := srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		mailed <- t.Type()
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	fmt.Println(<-mailed)
	// Output: mail
}

func ExampleInspector() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()
	for range 3 {
		if _, err := client.Enqueue(asynq.NewTask("email:newsletter", nil), asynq.ProcessIn(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}

	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("default")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Pending, "pending,", info.Scheduled, "scheduled")

	// Iterate over any number of tasks, and run or delete those that match a filter:
	ctx := context.Background()
	newsletters := asynq.TaskFilter{Type: "email:*"}
	for task, err := range inspector.Tasks(ctx, "default", asynq.TaskStateScheduled, newsletters) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.Type, time.Until(task.NextProcessAt) > 50*time.Minute)
	}
	n, err := inspector.RunTasks(ctx, "default", asynq.TaskStateScheduled, newsletters)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved to pending:", n)
	// Output:
	// 0 pending, 3 scheduled
	// email:newsletter true
	// email:newsletter true
	// email:newsletter true
	// moved to pending: 3
}

func ExampleReceiver() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()
	for _, size := range []string{"small", "large", "broken"} {
		if _, err := client.Enqueue(asynq.NewTask("image:resize", []byte(size)), asynq.Queue("images")); err != nil {
			log.Fatal(err)
		}
	}

	receiver := asynq.NewReceiver(redis, asynq.ReceiverConfig{
		Queues:        map[string]int{"images": 1},
		LeaseDuration: time.Minute,
		LogLevel:      asynq.ErrorLevel,
	})
	if err := receiver.Start(); err != nil {
		log.Fatal(err)
	}
	defer receiver.Shutdown()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	leases, err := receiver.Receive(ctx, 10, "images") // waits until there is a task
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range leases {
		switch string(l.Task().Payload()) {
		case "broken":
			err = l.Fail(ctx, errors.New("not an image"))
		case "large": // extend the lease of a long task; another process may settle it
			if _, err := l.Extend(ctx); err != nil {
				log.Fatal(err)
			}
			err = receiver.Settle(ctx, asynq.Settlement{Ref: l.Ref()})[0]
		default:
			err = l.Complete(ctx, []byte("120x80"))
		}
		fmt.Printf("%s: %v\n", l.Task().Payload(), err)
	}

	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("images")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Processed, "processed,", info.Failed, "failed,", info.Retry, "to be retried")

	// Output:
	// small: <nil>
	// large: <nil>
	// broken: <nil>
	// 3 processed, 1 failed, 1 to be retried
}

func ExampleScheduler() {
	redis, stop := embeddedRedis()
	defer stop()

	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	enqueued := make(chan *asynq.TaskInfo, 10)
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
		Location: berlin,
		Group:    "billing", // run any number of instances: each tick is enqueued once
		LogLevel: asynq.ErrorLevel,
		PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
			if err == nil {
				enqueued <- info
			}
		},
	})
	if _, err := scheduler.Register("30 4 * * MON-FRI", asynq.NewTask("invoices:send", nil), asynq.Queue("low")); err != nil {
		log.Fatal(err)
	}
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("heartbeat", nil)); err != nil {
		log.Fatal(err)
	}
	if err := scheduler.Start(); err != nil { // or scheduler.Run(), which waits for SIGTERM or SIGINT
		log.Fatal(err)
	}
	fmt.Println((<-enqueued).Type)
	scheduler.Shutdown()
	// Output: heartbeat
}

// tenants is a source of periodic tasks, such as a table of a database.
type tenants struct{ names []string }

// GetConfigs returns a nightly report for each tenant.
func (t *tenants) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	var configs []*asynq.PeriodicTaskConfig
	for _, name := range t.names {
		configs = append(configs, &asynq.PeriodicTaskConfig{Cronspec: "@midnight", Task: asynq.NewTask("report", []byte(name))})
	}
	return configs, nil
}

func ExamplePeriodicTaskManager() {
	redis, stop := embeddedRedis()
	defer stop()

	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt:               redis,
		PeriodicTaskConfigProvider: &tenants{names: []string{"acme", "umbrella"}},
		SyncInterval:               time.Minute, // tenants are added and removed
		SchedulerOpts:              &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.Start(); err != nil { // or manager.Run(), which waits for SIGTERM or SIGINT
		log.Fatal(err)
	}
	manager.Shutdown()
	// Output:
}
