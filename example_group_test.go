package asynq_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"github.com/asynq-go/asynq"
)

func ExampleGroupAggregator() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()

	// What one user did within a minute becomes one mail. Each task says which group it waits in:
	for _, event := range []string{"liked", "shared", "followed"} {
		if _, err := client.Enqueue(asynq.NewTask("notify", []byte(event)), asynq.Group("user:42")); err != nil {
			log.Fatal(err)
		}
	}

	// The worker makes one task of those in a group:
	mailed := make(chan string)
	srv := asynq.NewServer(redis, asynq.Config{
		GroupGracePeriod: time.Minute,      // when none has come for so long,
		GroupMaxDelay:    10 * time.Minute, // or the first one has waited for so long,
		GroupMaxSize:     3,                // or there are so many
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
