package health_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

func ExampleCheck() {
	fake, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer fake.Close()
	redis := asynq.RedisClientOpt{Addr: fake.Addr()}
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer client.Close()
	defer inspector.Close()
	if _, err := client.Enqueue(asynq.NewTask("email:welcome", nil)); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	report, err := health.Check(ctx, inspector, health.Settings{})
	for _, cause := range report.Causes {
		fmt.Println(cause.Severity, cause.Title)
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// trouble No server is running: 1 queue has 1 task
}
