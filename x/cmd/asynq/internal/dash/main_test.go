package dash

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// TestMain disables the log of go-redis, which also returns its messages as errors.
func TestMain(m *testing.M) {
	redis.SetLogger(noLog{})
	os.Exit(m.Run())
}
