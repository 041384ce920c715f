package redistest

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
)

// Server is a redis-server process. It dies with the test process.
type Server struct{ *proctest.Redis }

// StartServer starts a redis-server that the test has for itself, to fill, freeze or kill it, which
// ends with the test. It keeps nothing on disk unless args say so. Where there is no redis-server
// on the PATH the test is skipped.
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return &Server{proctest.StartRedis(t, args...)}
}

// Client returns a client of the server, closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	return client
}

func itoa(n int) string { return strconv.Itoa(n) }
