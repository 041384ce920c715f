package dash

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// What go-redis has to say comes back as an error as well.
func TestMain(m *testing.M) {
	redis.SetLogger(noLog{})
	os.Exit(m.Run())
}
