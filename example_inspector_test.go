package asynq_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/asynq-go/asynq"
)

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

	// Look at tasks, however many there are, and run or delete those that you choose:
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
	fmt.Println("now run:", n)

	// Is anything broken?
	for finding, err := range inspector.Diagnose(ctx, asynq.DiagnoseOptions{Repair: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(finding)
	}
	// Output:
	// 0 pending, 3 scheduled
	// email:newsletter true
	// email:newsletter true
	// email:newsletter true
	// now run: 3
}
