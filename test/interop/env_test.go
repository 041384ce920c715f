package interop

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/ours"
	"github.com/asynq-go/asynq/test/interop/side"
	"github.com/asynq-go/asynq/test/interop/theirs"
	"github.com/asynq-go/asynq/x/doctor"
)

var libraries = map[string]side.Library{
	"ours":   ours.Library{Label: "ours"},
	"theirs": theirs.Library{Label: "theirs"},
}

// limit is how long tests wait.
const limit = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Most tests mostly wait.
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestSidesDifferByImportPath ensures that scenarios make the same calls with both libraries.
func TestSidesDifferByImportPath(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := bytes.Replace(read("ours/ours.go"), []byte(`"github.com/asynq-go/asynq"`), []byte(`"github.com/hibiken/asynq"`), 1)
	want = bytes.ReplaceAll(want, []byte("ackage ours"), []byte("ackage theirs"))
	if !bytes.Equal(want, read("theirs/theirs.go")) {
		t.Error("theirs/theirs.go is not ours/ours.go with another import path")
	}
}

// env is a Redis that both libraries use.
type env struct {
	*testing.T
	addr  string
	redis *redis.Client
}

// newEnv starts a Redis. At the end of the test, its data must be consistent.
func newEnv(t *testing.T) *env {
	t.Helper()
	s := &env{T: t, addr: proctest.StartRedis(t).Addr()}
	s.redis = redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { _ = s.redis.Close() }) // end of the test
	t.Cleanup(s.check)
	return s
}

// check verifies with x/doctor that the data is consistent.
func (s *env) check() {
	s.Helper()
	for f, err := range doctor.Diagnose(context.Background(), asynq.RedisClientOpt{Addr: s.addr}, doctor.Options{}) {
		s.Errorf("Diagnose: finding %v, error %v", f, err)
	}
}

// bothWays runs the test twice, with the libraries in both roles.
func bothWays(t *testing.T, test func(s *env, a, b side.Library)) {
	t.Parallel()
	for _, name := range []string{"ours", "theirs"} {
		a, b := libraries[name], libraries["theirs"]
		if name == "theirs" {
			b = libraries["ours"]
		}
		t.Run(a.Name()+" to "+b.Name(), func(t *testing.T) {
			t.Parallel()
			test(newEnv(t), a, b)
		})
	}
}

// client returns a client, closed when the test ends.
func (s *env) client(l side.Library) side.Client {
	c := l.Client(s.addr)
	s.Cleanup(func() { _ = c.Close() }) // end of the test
	return c
}

// inspector returns an inspector, closed when the test ends.
func (s *env) inspector(l side.Library) side.Inspector {
	i := l.Inspector(s.addr)
	s.Cleanup(func() { _ = i.Close() }) // end of the test
	return i
}

// serve starts a server, shut down when the test ends.
func (s *env) serve(l side.Library, cfg side.Config, h side.Handler) side.Server {
	s.Helper()
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 5
	}
	if cfg.Queues == nil {
		cfg.Queues = []string{"default"}
	}
	srv := l.Server(s.addr, cfg)
	s.must(srv.Start(h))
	s.Cleanup(srv.Shutdown)
	return srv
}

// enqueue enqueues tasks with a client and returns the last one.
func (s *env) enqueue(c side.Client, tasks ...side.Task) (info *side.Info) {
	s.Helper()
	for _, t := range tasks {
		var err error
		if info, err = c.Enqueue(t); err != nil {
			s.Fatalf("enqueue of %+v: %v", t, err)
		}
	}
	return info
}

func (s *env) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// task returns a task in the default queue, which must exist.
func (s *env) task(i side.Inspector, id string) *side.Info {
	s.Helper()
	info, err := i.Task("default", id)
	if err != nil {
		s.Fatalf("task %q: %v", id, err)
	}
	return info
}

// await waits until a task in the default queue is in the state.
func (s *env) await(i side.Inspector, id, state string) (info *side.Info) {
	s.Helper()
	proctest.Eventually(s, "task "+id+" "+state, func() bool {
		var err error
		info, err = i.Task("default", id)
		return err == nil && info.State == state
	})
	return info
}

// receive returns the next value of a channel.
func receive[T any](s *env, ch <-chan T, what string) (v T) {
	s.Helper()
	select {
	case v = <-ch:
	case <-time.After(limit):
		s.Fatalf("%v passed without: %s", limit, what)
	}
	return v
}
