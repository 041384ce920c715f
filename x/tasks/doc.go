// Package tasks provides typed tasks on top of asynq. A definition holds the name of a task, the Go
// type of its parameters and its settings; producers and workers share it. Each task has its own
// queue.
//
//	var Welcome = tasks.Define[WelcomeParams]("email:welcome", tasks.MaxRetry(5), tasks.InOrder())
//
//	// the producer
//	info, err := Welcome.Enqueue(ctx, client, WelcomeParams{User: 42})
//
//	// the worker
//	worker, err := tasks.Start(ctx, redis, tasks.Table{
//		Welcome.Handle(func(ctx context.Context, p WelcomeParams) error { … }),
//	})
//
// The tasks are ordinary asynq tasks whose type and queue are the name and whose payload is JSON.
// Programs in other languages enqueue and process them through the queue service, and all tools
// support them.
package tasks
