package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/asynq-go/asynq"
)

func ExampleTaker() {
	redis, stop := embeddedRedis()
	defer stop()
	client := asynq.NewClient(redis)
	defer client.Close()
	for _, size := range []string{"small", "large", "broken"} {
		if _, err := client.Enqueue(asynq.NewTask("image:resize", []byte(size)), asynq.Queue("images")); err != nil {
			log.Fatal(err)
		}
	}

	taker := asynq.NewTaker(redis, asynq.TakerConfig{
		Queues:        map[string]int{"images": 1},
		LeaseDuration: time.Minute,
		LogLevel:      asynq.ErrorLevel,
	})
	if err := taker.Start(); err != nil {
		log.Fatal(err)
	}
	defer taker.Shutdown()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	leases, err := taker.Take(ctx, 10, "images") // waits until there is a task
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range leases {
		switch string(l.Task().Payload()) {
		case "broken":
			err = l.Fail(ctx, errors.New("not an image"))
		case "large": // it takes long: say that it goes on, and settle it elsewhere
			if _, err := l.Extend(ctx); err != nil {
				log.Fatal(err)
			}
			err = taker.Lease(l.Queue(), l.ID(), l.Token()).Done(ctx, nil)
		default:
			err = l.Done(ctx, []byte("120x80"))
		}
		fmt.Printf("%s: %v\n", l.Task().Payload(), err)
	}

	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	info, err := inspector.GetQueueInfo("images")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Processed, "processed,", info.Failed, "failed,", info.Retry, "to be tried again")

	// Output:
	// small: <nil>
	// large: <nil>
	// broken: <nil>
	// 3 processed, 1 failed, 1 to be tried again
}
