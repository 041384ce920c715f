package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// A redisServer is the Redis that stores the tasks.
type redisServer struct {
	name  string
	opt   asynq.RedisConnOpt
	close func()
}

// connect returns the Redis of REDIS_URL, or one embedded in this process if it is not set. Each
// run has a unique namespace, so that runs on a shared Redis see neither each other's tasks nor
// those of other programs.
func connect() (redisServer, error) {
	namespace := "quickstart-" + rand.Text()[:6]
	if url := os.Getenv("REDIS_URL"); url != "" {
		opt, err := asynq.ParseRedisURI(url)
		if err != nil {
			return redisServer{}, fmt.Errorf("REDIS_URL: %w", err)
		}
		return redisServer{
			name:  "the Redis of REDIS_URL",
			opt:   asynq.WithNamespace(opt, namespace),
			close: func() { deleteNamespace(opt, namespace) },
		}, nil
	}
	mini, err := miniredis.Run()
	if err != nil {
		return redisServer{}, fmt.Errorf("start the embedded Redis: %w", err)
	}
	return redisServer{
		name:  "an embedded Redis (set REDIS_URL to use a real one)",
		opt:   asynq.WithNamespace(asynq.RedisClientOpt{Addr: mini.Addr()}, namespace),
		close: mini.Close,
	}, nil
}

// deleteNamespace deletes every key of a run's own namespace.
func deleteNamespace(opt asynq.RedisConnOpt, namespace string) {
	client, ok := opt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return
	}
	defer client.Close()
	ctx := context.Background()
	keys := client.Scan(ctx, 0, namespace+":*", 100).Iterator()
	for keys.Next(ctx) {
		client.Del(ctx, keys.Val())
	}
	if err := keys.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart: clean up:", err)
	}
}
