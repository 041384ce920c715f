package cli

import (
	"context"

	"github.com/redis/go-redis/v9"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// QuietRedis disables the log of go-redis for the whole process: go-redis also returns these
// messages as errors.
func QuietRedis() { redis.SetLogger(noLog{}) }
