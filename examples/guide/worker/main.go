// Command worker processes tasks until it receives SIGTERM or SIGINT.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/asynq-go/asynq"
)

func main() {
	redis := asynq.RedisClientOpt{Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")}
	srv := asynq.NewServer(redis, asynq.Config{Concurrency: 10})

	mux := asynq.NewServeMux()
	mux.HandleFunc("email:welcome", sendWelcome)
	if err := srv.Run(mux); err != nil {
		log.Fatal(err)
	}
}

func sendWelcome(ctx context.Context, t *asynq.Task) error {
	var email struct {
		UserID int `json:"user_id"`
	}
	if err := json.Unmarshal(t.Payload(), &email); err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err) // A retry cannot succeed.
	}
	log.Printf("welcome, user %d", email.UserID)
	return nil
}
