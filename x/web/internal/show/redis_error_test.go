package show

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisError(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer client.Close()
	refused := client.Ping(t.Context()).Err()
	for want, err := range map[string]error{
		"Redis is unreachable: dial tcp 127.0.0.1:1: connect: connection refused":    fmt.Errorf("redis cannot be asked: %w", fmt.Errorf("asynq: listing queues: %w", refused)),
		"Redis is unreachable: no answer in time":                                    fmt.Errorf("asynq: listing queues: %w", context.DeadlineExceeded),
		"Redis returned an error: WRONGTYPE Operation against a key of another type": fmt.Errorf("asynq: queue: %w", redisAnswer("WRONGTYPE Operation against a key of another type")),
		`queue "a": the archive is full`:                                             errors.New(`asynq: queue "a": the archive is full`),
		"":                                                                           nil,
	} {
		if got := RedisError(err); got != want {
			t.Errorf("RedisError(%v) is %q, want %q", err, got, want)
		}
	}
}

// redisAnswer is an error reply of Redis.
type redisAnswer string

func (e redisAnswer) Error() string { return string(e) }
func (redisAnswer) RedisError()     {}
