package redistest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/asynq-go/asynq/internal/proctest"
)

// Main is the TestMain of packages that use Redis: it runs the tests, stops the server that they
// shared, fails if goroutines are left, and exits.
func Main(m *testing.M) {
	// A go-redis client that was closed during an outage keeps trying to connect for up to a
	// second.
	goleak.VerifyTestMain(mainRun{m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type mainRun struct{ m *testing.M }

func (r mainRun) Run() int {
	code := r.m.Run()
	shared.stop()
	return code
}

var shared sharedServer

// sharedServer is the real server of all tests of this binary.
type sharedServer struct {
	once   sync.Once
	err    error
	server *proctest.Redis // nil where ASYNQ_TEST_REDIS names one
	admin  *redis.Client   // of database 0, where databases are reserved

	mu        sync.Mutex
	databases int
	next      int
}

func (s *sharedServer) start() error {
	addr := os.Getenv("ASYNQ_TEST_REDIS")
	if addr == "" {
		var err error
		if s.server, err = proctest.NewRedis("--databases", "4096"); err != nil {
			return err
		}
		addr = s.server.Addr()
	}
	s.admin = redis.NewClient(&redis.Options{Addr: addr})
	reply, err := s.admin.ConfigGet(context.Background(), "databases").Result()
	if err != nil {
		return fmt.Errorf("redistest: %s: %w", addr, err)
	}
	s.databases, err = strconv.Atoi(reply["databases"])
	return err
}

func (s *sharedServer) stop() {
	if s.admin != nil {
		_ = s.admin.Close() // the tests are over
	}
	if s.server != nil {
		s.server.Close()
	}
}

// reservedFor bounds how long a crashed test keeps a database.
const reservedFor = 15 * time.Minute

// database reserves an empty database. Database 0 holds the reservations, because other test
// binaries may use the same server.
func (s *sharedServer) database(t testing.TB) (addr string, db int, release func()) {
	t.Helper()
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	ctx := context.Background()
	for range s.databases {
		s.mu.Lock()
		s.next = s.next%(s.databases-1) + 1
		db = s.next
		s.mu.Unlock()
		reservation := fmt.Sprintf("redistest:database:%d", db)
		ok, err := s.admin.SetNX(ctx, reservation, os.Getpid(), reservedFor).Result()
		if err != nil {
			t.Fatalf("redistest: reserving a database: %v", err)
		}
		if !ok {
			continue
		}
		s.flush(t, db)
		return s.admin.Options().Addr, db, func() {
			s.flush(t, db)
			if err := s.admin.Del(ctx, reservation).Err(); err != nil {
				t.Errorf("redistest: giving a database back: %v", err)
			}
		}
	}
	t.Fatalf("redistest: all %d databases are in use", s.databases)
	return "", 0, nil
}

func (s *sharedServer) flush(t testing.TB, db int) {
	t.Helper()
	ctx := context.Background()
	_, err := s.admin.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, "select", db)
		pipe.FlushDB(ctx)
		pipe.Do(ctx, "select", 0)
		return nil
	})
	if err != nil {
		t.Errorf("redistest: emptying database %d: %v", db, err)
	}
}
