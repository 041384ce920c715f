// Command producer enqueues a task, as a web application does while it serves a request.
package main

import (
	"cmp"
	"log"
	"os"
	"time"

	"github.com/asynq-go/asynq"
)

func main() {
	redis := asynq.RedisClientOpt{Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")}
	client := asynq.NewClient(redis)

	task := asynq.NewTask("email:welcome", []byte(`{"user_id":42}`))
	info, err := client.Enqueue(task, asynq.MaxRetry(5), asynq.Timeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("enqueued task %s in queue %s", info.ID, info.Queue)
	client.Close()
}
