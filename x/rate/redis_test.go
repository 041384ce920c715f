package rate

import (
	"fmt"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// servers has the addresses of the redis-servers of all tests. It is empty without redis-server.
var servers struct{ plain, cluster string }

func TestMain(m *testing.M) {
	code, err := withServers(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServers(run func() int) (code int, err error) {
	if found, err := proctest.HasRedis(); !found {
		if err != nil {
			return 1, err
		}
		fmt.Fprintln(os.Stderr, "redis-server is not on the PATH: the tests run on an embedded Redis only")
		return run(), nil
	}
	plain, err := proctest.NewRedis()
	if err != nil {
		return 1, err
	}
	defer plain.Close()
	cluster, err := proctest.NewCluster()
	if err != nil {
		return 1, err
	}
	defer cluster.Close()
	servers.plain, servers.cluster = plain.Addr(), cluster.Addr()
	return run(), nil
}

// place is a Redis for tests.
type place struct {
	opt  asynq.RedisConnOpt
	mini *miniredis.Miniredis // nil for a real one
}

// each runs a test on an embedded Redis, a real one, and a Cluster.
func each(t *testing.T, test func(t *testing.T, p place)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		mini := miniredis.RunT(t)
		test(t, place{asynq.RedisClientOpt{Addr: mini.Addr()}, mini})
	})
	if servers.plain == "" {
		return
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, place{opt: asynq.RedisClientOpt{Addr: servers.plain}})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, place{opt: asynq.RedisClusterClientOpt{Addrs: []string{servers.cluster}}})
	})
}

// limiter makes a limiter with the test's own scope.
func (p place) limiter(t *testing.T, limit Limit) *Limiter {
	t.Helper()
	l := NewLimiter(p.opt, t.Name(), limit)
	t.Cleanup(func() { closed(t, l.Close()) })
	return l
}

func (p place) semaphore(t *testing.T, tokens int) *Semaphore {
	t.Helper()
	s := NewSemaphore(p.opt, t.Name(), tokens)
	t.Cleanup(func() { closed(t, s.Close()) })
	return s
}

func closed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
