package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/doctor"
)

func ExampleDiagnose() {
	fake, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer fake.Close()
	redis := asynq.RedisClientOpt{Addr: fake.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()
	if _, err := client.Enqueue(asynq.NewTask("email:welcome", nil), asynq.TaskID("lost")); err != nil {
		log.Fatal(err)
	}
	fake.Del("asynq:{default}:pending") // now no server would run the task

	for finding, err := range doctor.Diagnose(context.Background(), redis, doctor.Options{Repair: true}) {
		if err != nil {
			log.Print(err) // something could not be checked; the diagnosis continues
			continue
		}
		fmt.Println(finding.Kind, finding.TaskID)
		fmt.Println(finding.Detail)
		fmt.Println(finding.Repair)
	}
	// Output:
	// orphan-task lost
	// its state is "pending", but it is not in that collection
	// return it to pending
}
