package guide

import (
	"os"

	"github.com/asynq-go/asynq"
)

// Connect returns the options of the Redis that REDIS_URL names, such as
// rediss://asynq-worker:secret@redis.internal:6380/0 for TLS and a user of its own.
func Connect() (asynq.RedisConnOpt, error) {
	return asynq.ParseRedisURI(os.Getenv("REDIS_URL"))
}
