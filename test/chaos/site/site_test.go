package site

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/asynq-go/asynq/internal/proctest"
)

func TestMain(m *testing.M) {
	// go-redis logs failed connections.
	redis.SetLogger(&logging.VoidLogger{})
	if os.Getenv(harnessEnv) != "" {
		runHarness()
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Most tests mostly wait.
		if err := flag.Set("test.parallel", "5"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// start starts a site. At the end of the test, all its processes must have exited.
func start(t *testing.T, opts Options) (*Site, context.Context) {
	t.Helper()
	t.Parallel()
	proctest.NeedRedis(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	began := time.Now()
	s, err := Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is up after %v", opts.Kind, time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			for _, n := range append(s.Nodes(), s.Sentinels()...) {
				log := n.Log()
				t.Logf("%s:\n%s", n, log[max(0, len(log)-3000):])
			}
		}
		var pids []int
		for _, n := range append(s.Nodes(), s.Sentinels()...) {
			if pid := n.PID(); pid != 0 {
				pids = append(pids, pid)
			}
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d after Close: %v", pid, err)
			}
		}
		if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory after Close: %v", err)
		}
	})
	return s, ctx
}

// fill writes n keys to all shards.
func fill(ctx context.Context, t *testing.T, s *Site, prefix string, n int) {
	t.Helper()
	for i := range n {
		if err := s.Client().Set(ctx, prefix+strconv.Itoa(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// count returns the number of keys that exist.
func count(ctx context.Context, t *testing.T, s *Site, prefix string, n int) int {
	t.Helper()
	found := 0
	for i := range n {
		switch err := s.Client().Get(ctx, prefix+strconv.Itoa(i)).Err(); {
		case err == nil:
			found++
		case !errors.Is(err, redis.Nil):
			t.Fatal(err)
		}
	}
	return found
}

// all ends the test unless all keys exist.
func all(ctx context.Context, t *testing.T, s *Site, prefix string, n int) {
	t.Helper()
	if found := count(ctx, t, s, prefix, n); found != n {
		t.Fatalf("%d of the keys %s are there, want %d", found, prefix, n)
	}
}

// done ends the test unless the incident is over, and logs it.
func done(t *testing.T, i *Incident, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", i.Name, err)
	}
	if i.Began.IsZero() || !i.Over.After(i.Began) || i.LostUntil.Before(i.LostFrom) {
		t.Fatalf("moments of %s: %+v", i.Name, i)
	}
	t.Log(i)
}

func primaryOf(ctx context.Context, t *testing.T, sh *Shard) *Node {
	t.Helper()
	n, err := sh.Primary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{"": 0, "123456789": 12739, "asynq:{default}:pending": Slot("default"), "{}a": Slot("{}a")} {
		if got := Slot(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]Options{
		"no such kind":    {Kind: "other"},
		"no such program": {Kind: Standalone, Binary: "no-redis-server"},
		"full directory":  {Kind: Standalone, Dir: full},
		"no such fsync":   {Kind: Standalone, Fsync: "sometimes"},
	} {
		if s, err := Start(context.Background(), opts); err == nil {
			t.Errorf("%s: no error", name)
			_ = s.Close()
		}
	}
}

func TestRestart(t *testing.T) {
	s, ctx := start(t, Options{Kind: Standalone, Fsync: Always})
	if a := s.Address(); len(a.Addrs) != 1 || a.Kind != Standalone {
		t.Errorf("address %+v", a)
	}
	fill(ctx, t, s, "k", 100)
	node := s.Nodes()[0]
	pid := node.PID()
	i, err := s.Restart(ctx, node, 50*time.Millisecond)
	done(t, i, err)
	if node.PID() == pid {
		t.Error("same process")
	}
	if i.Loses() != 0 {
		t.Errorf("with every write on the disk, %v", i)
	}
	all(ctx, t, s, "k", 100)

	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Role(ctx); err == nil || node.PID() != 0 {
		t.Errorf("a stopped node has process %d, error %v", node.PID(), err)
	}
	if err := node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	all(ctx, t, s, "k", 100)
	if _, err := s.Failover(ctx, s.Shards()[0], Crash); !errors.Is(err, ErrUnsupported) {
		t.Errorf("failover of a lone server: %v", err)
	}
}

// takesOver checks what holds for every failover.
func takesOver(ctx context.Context, t *testing.T, s *Site, sh *Shard, mode Mode) *Incident {
	t.Helper()
	prefix := fmt.Sprintf("%s-%s-", sh.Name(), mode)
	fill(ctx, t, s, prefix, 100)
	old := primaryOf(ctx, t, sh)
	i, err := s.Failover(ctx, sh, mode)
	done(t, i, err)
	t.Logf("elected after %v, writable after %v", i.Elected.Sub(i.Began).Round(time.Millisecond),
		i.Writable.Sub(i.Began).Round(time.Millisecond))
	if i.Elected.Before(i.Began) || i.Writable.Before(i.Began) || i.Over.Before(i.Elected) {
		t.Errorf("moments: %+v", i)
	}
	now := primaryOf(ctx, t, sh)
	if now == old || now.Name() != i.Primary {
		t.Fatalf("the primary was %s and is %s", old, now)
	}
	if role, err := old.Role(ctx); role != Replica {
		t.Fatalf("%s is a %s now, error %v", old, role, err)
	}
	all(ctx, t, s, prefix, 100) // written before LostFrom
	fill(ctx, t, s, prefix+"after-", 10)
	return i
}

func TestSentinelFailover(t *testing.T) {
	s, ctx := start(t, Options{Kind: Sentinel, MinReplicas: 1})
	if a := s.Address(); len(a.Addrs) != 3 || a.Master == "" {
		t.Errorf("address %+v", a)
	}
	sh := s.Shards()[0]
	if replicas, err := sh.Replicas(ctx); len(replicas) != 2 {
		t.Fatalf("%d replicas, error %v", len(replicas), err)
	}
	if i := takesOver(ctx, t, s, sh, Crash); i.Loses() == 0 {
		t.Error("a crash of a primary loses nothing")
	}
	if i, err := s.Restart(ctx, s.Sentinels()[0], 0); err != nil || i.Loses() != 0 {
		t.Errorf("%v, error %v", i, err)
	}
}

func TestSentinelSplitBrain(t *testing.T) {
	s, ctx := start(t, Options{Kind: Sentinel})
	takesOver(ctx, t, s, s.Shards()[0], Order)
	i := takesOver(ctx, t, s, s.Shards()[0], Freeze)
	if i.LostUntil.Before(i.Elected) {
		t.Errorf("the writes of the frozen primary are not reported as lost: %+v", i)
	}
}

func TestClusterFailover(t *testing.T) {
	s, ctx := start(t, Options{Kind: Cluster})
	if a := s.Address(); len(a.Addrs) != 6 {
		t.Errorf("address %+v", a)
	}
	if list, err := s.Primaries(ctx); len(list) != 3 {
		t.Fatalf("%d primaries, error %v", len(list), err)
	}
	takesOver(ctx, t, s, s.Shards()[0], Crash)
	if i := takesOver(ctx, t, s, s.Shards()[1], Order); i.Loses() != 0 {
		t.Errorf("by order: %v", i)
	}
	i := takesOver(ctx, t, s, s.Shards()[2], Freeze)
	if i.LostUntil.Before(i.Elected) {
		t.Errorf("the writes of the frozen primary are not reported as lost: %+v", i)
	}
}
