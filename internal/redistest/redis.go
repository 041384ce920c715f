package redistest

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/wire"
)

// Redis is one test's Redis. It is empty when the test starts. When it ends, all invariants of the
// namespaces that it had a broker for must hold.
type Redis struct {
	Addr string // host:port
	DB   int

	mini    *miniredis.Miniredis // nil on a real server
	client  *redis.Client
	checked []wire.Namespace
	skip    bool // the check
	made    int  // tasks made by builders
	fetches int
}

// Each runs a test twice, as parallel subtests: on a miniredis, and on a real server where there is
// one.
func Each(t *testing.T, test func(t *testing.T, r *Redis)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, Mini(t))
	})
	found, err := proctest.HasRedis()
	if found || err != nil || os.Getenv("ASYNQ_TEST_REDIS") != "" { // where it is missing but must not be, Real says so
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			test(t, Real(t))
		})
	}
}

// Mini returns a miniredis of the test's own.
func Mini(t testing.TB) *Redis {
	t.Helper()
	mini := miniredis.RunT(t)
	return newRedis(t, &Redis{Addr: mini.Addr(), mini: mini})
}

// Real returns an empty database of the real server that all tests share. It skips the test where
// there is no server.
func Real(t testing.TB) *Redis {
	t.Helper()
	if os.Getenv("ASYNQ_TEST_REDIS") == "" {
		proctest.NeedRedis(t)
	}
	addr, db, release := shared.database(t)
	t.Cleanup(release)
	return newRedis(t, &Redis{Addr: addr, DB: db})
}

func newRedis(t testing.TB, r *Redis) *Redis {
	r.client = newClient(r)
	r.checked = []wire.Namespace{wire.DefaultNamespace}
	t.Cleanup(func() {
		defer r.client.Close()
		if !r.skip {
			r.Check(t)
		}
	})
	return r
}

// newClient returns a client that waits for replies as long as a busy machine needs. After a
// timeout, go-redis would send the command again, which models and fakes do not expect.
func newClient(r *Redis) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB, ReadTimeout: time.Minute})
}

// Client returns a client, which is closed when the test ends.
func (r *Redis) Client() redis.UniversalClient { return r.client }

// URI names the database in the form redis://host:port/db.
func (r *Redis) URI() string { return "redis://" + r.Addr + "/" + itoa(r.DB) }

// IsMini reports whether it is a miniredis.
func (r *Redis) IsMini() bool { return r.mini != nil }

// FastForward advances all TTLs by d. It reports whether it could: the time of a real server cannot
// be changed. The clock of scripts does not change.
func (r *Redis) FastForward(d time.Duration) bool {
	if r.mini == nil {
		return false
	}
	r.mini.FastForward(d)
	return true
}

// SetTime stops the clock of scripts at now. It reports whether it could. TTLs do not notice.
func (r *Redis) SetTime(now time.Time) bool {
	if r.mini == nil {
		return false
	}
	r.mini.SetTime(now)
	return true
}

// Broker returns a new broker on the default namespace.
func (r *Redis) Broker() *rdb.Broker { return rdb.New(r.client, wire.DefaultNamespace) }

// BrokerIn returns a new broker on a namespace, which is then checked too when the test ends.
func (r *Redis) BrokerIn(ns wire.Namespace) *rdb.Broker {
	if !slices.Contains(r.checked, ns) {
		r.checked = append(r.checked, ns)
	}
	return rdb.New(r.client, ns)
}

// AllowViolations disables the invariant check of the test, which leaves broken data behind.
func (r *Redis) AllowViolations() { r.skip = true }

// Check reports every broken invariant as an error of the test.
func (r *Redis) Check(t testing.TB) {
	t.Helper()
	for _, ns := range r.checked {
		found, err := rdbcheck.Check(context.Background(), r.client, ns)
		if err != nil {
			t.Errorf("invariant check: %v", err)
		}
		for _, v := range found {
			t.Errorf("broken invariant: %v", v)
		}
	}
}
