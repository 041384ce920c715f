package cli

import (
	"context"

	"github.com/redis/go-redis/v9"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// QuietRedis keeps go-redis from writing log lines: what it says there comes back as an error as well. It is for the whole process.
func QuietRedis() { redis.SetLogger(noLog{}) }
