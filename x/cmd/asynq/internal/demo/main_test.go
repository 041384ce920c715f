package demo

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// What go-redis has to say comes back as an error as well. When all is closed, no goroutine is left.
func TestMain(m *testing.M) {
	redis.SetLogger(noLog{})
	goleak.VerifyTestMain(m)
}
