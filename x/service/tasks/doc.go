// Package tasks is a small layer over asynq for programs whose tasks are known by name: each has a queue of its own, parameters of a Go
// type, and its settings in one place, from which the side that enqueues and the side that works both take them.
//
//	var Welcome = tasks.Define[WelcomeParams]("email:welcome", tasks.MaxRetry(5), tasks.InOrder())
//
//	// where it is asked for
//	info, err := Welcome.Enqueue(ctx, client, WelcomeParams{User: 42})
//
//	// where it is done
//	worker, err := tasks.Start(ctx, redis, tasks.Table{
//		Welcome.Handle(func(ctx context.Context, p WelcomeParams) error { … }),
//	})
//
// Tasks are ordinary tasks of asynq: type and queue have the task's name, and the payload is JSON. So the queue service enqueues them
// and works on them for programs in other languages, and every tool shows them.
package tasks
