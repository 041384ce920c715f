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
	"github.com/asynq-go/asynq/x/interop/ours"
	"github.com/asynq-go/asynq/x/interop/side"
	"github.com/asynq-go/asynq/x/interop/theirs"
)

var libraries = map[string]side.Library{
	"ours":   ours.Library{Label: "ours"},
	"theirs": theirs.Library{Label: "theirs"},
}

// limit is how long a test waits for what must happen.
const limit = 25 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runChild()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Most tests wait most of the time.
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestSidesDifferByImportPath makes sure that a scenario asks the same of both libraries.
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

// site is a Redis with both libraries at work on it.
type site struct {
	*testing.T
	addr  string
	redis *redis.Client
}

// newSite starts a Redis. When the test is over, nothing in it may be broken.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, addr: proctest.StartRedis(t).Addr()}
	s.redis = redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { _ = s.redis.Close() }) // the test is over
	t.Cleanup(s.check)
	return s
}

// check has the Inspector look for what is broken.
func (s *site) check() {
	s.Helper()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: s.addr})
	defer inspector.Close()
	for f, err := range inspector.Diagnose(context.Background(), asynq.DiagnoseOptions{}) {
		if err != nil {
			s.Errorf("Diagnose: %v", err)
		} else {
			s.Errorf("Diagnose: %v", f)
		}
	}
}

// bothWays runs the test twice, each library in each part.
func bothWays(t *testing.T, test func(s *site, a, b side.Library)) {
	t.Parallel()
	for _, name := range []string{"ours", "theirs"} {
		a, b := libraries[name], libraries["theirs"]
		if name == "theirs" {
			b = libraries["ours"]
		}
		t.Run(a.Name()+" to "+b.Name(), func(t *testing.T) {
			t.Parallel()
			test(newSite(t), a, b)
		})
	}
}

// client returns a client, closed when the test ends.
func (s *site) client(l side.Library) side.Client {
	c := l.Client(s.addr)
	s.Cleanup(func() { _ = c.Close() }) // the test is over
	return c
}

// inspector returns an inspector, closed when the test ends.
func (s *site) inspector(l side.Library) side.Inspector {
	i := l.Inspector(s.addr)
	s.Cleanup(func() { _ = i.Close() }) // the test is over
	return i
}

// serve starts a server, shut down when the test ends.
func (s *site) serve(l side.Library, cfg side.Config, h side.Handler) side.Server {
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

// enqueue enqueues tasks with a client, and returns what is known of the last.
func (s *site) enqueue(c side.Client, tasks ...side.Task) (info *side.Info) {
	s.Helper()
	for _, t := range tasks {
		var err error
		if info, err = c.Enqueue(t); err != nil {
			s.Fatalf("enqueue of %+v: %v", t, err)
		}
	}
	return info
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// task is what the inspector says of a task in the default queue that must exist.
func (s *site) task(i side.Inspector, id string) *side.Info {
	s.Helper()
	info, err := i.Task("default", id)
	if err != nil {
		s.Fatalf("task %q: %v", id, err)
	}
	return info
}

// await waits until the inspector sees the task in the state, in the default queue.
func (s *site) await(i side.Inspector, id, state string) (info *side.Info) {
	s.Helper()
	proctest.Eventually(s, "task "+id+" "+state, func() bool {
		var err error
		info, err = i.Task("default", id)
		return err == nil && info.State == state
	})
	return info
}

// receive returns the next value of the channel.
func receive[T any](s *site, ch <-chan T, what string) (v T) {
	s.Helper()
	select {
	case v = <-ch:
	case <-time.After(limit):
		s.Fatalf("%v passed without: %s", limit, what)
	}
	return v
}
