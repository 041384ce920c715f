package demo

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// TestMain disables the log of go-redis, which also returns its messages as errors, and checks that
// no goroutines remain.
func TestMain(m *testing.M) {
	redis.SetLogger(noLog{})
	goleak.VerifyTestMain(m)
}
