package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// Every workload completes on every side and measures something.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	list := workloads(true)
	for _, d := range dimensions(false) {
		list = append(list, d.workload(d.values[1]))
	}
	slices.Reverse(list) // those with the longest waits first
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			server, err := startRedis(w.cluster)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.stop)
			tasks, programs := 20, ""
			if w.name == memoryPending {
				tasks = 2000 // more memory than the server itself may allocate or free
			}
			if w.programs {
				tasks = 4 // starting a program takes long
				if programs, err = testPrograms(); err != nil {
					t.Fatal(err)
				}
			}
			for _, side := range w.lanes() {
				if side == sideBullMQ {
					continue // needs other programs
				}
				if err := server.empty(t.Context()); err != nil {
					t.Fatal(err)
				}
				f, err := spawn(t.Context(), &laneConfig{
					Workload: w.name, Side: side, Addr: server.addr(), Tasks: tasks, Scale: 0.01, Soak: 2 * time.Second, Crowd: 20,
					Programs: programs,
				})
				if err != nil {
					t.Fatalf("%s: %v", side, err)
				}
				if (f.Tasks < tasks) != strings.HasPrefix(w.name, "idle/") || f.Seconds <= 0 || f.RedisCPU <= 0 {
					t.Errorf("%s: %+v", side, f)
				}
				if launches := strings.HasPrefix(w.name, prefixStart); !launches && f.Mallocs <= 0 ||
					f.Tasks > 0 && (f.OwnCPU <= 0 || !launches && (f.Commands < 1 || f.RoundTrips < 1)) {
					t.Errorf("%s: %+v", side, f)
				}
				measures(t, w, f)
			}
		})
	}
}

// measures checks that a workload has the figures of its kind, and no others.
func measures(t *testing.T, w *workload, f *figures) {
	t.Helper()
	waits := false
	for _, prefix := range []string{"latency/", "lateness/", prefixCluster, prefixStart} {
		waits = waits || strings.HasPrefix(w.name, prefix)
	}
	if waits != (f.Latency != nil) || (w.name == "soak") != (f.Trend != nil) {
		t.Errorf("latency %+v, trend %+v", f.Latency, f.Trend)
	}
	if (w.name == startImport) != (f.Init != nil) || (w.name == memoryPending) != (memory(f) > 100) {
		t.Errorf("initialization %+v, memory %v", f.Init, f.Memory)
	}
	if (w.name == clusterQueues) != (f.Idle != nil) || f.Idle != nil && f.Idle.Connections < 1 {
		t.Errorf("held by an idle server: %+v", f.Idle)
	}
}

func TestTasks(t *testing.T) {
	t.Parallel()
	w := &workload{size: 10_000, least: 300, share: 10}
	for _, c := range []struct {
		side  string
		scale float64
		want  int
	}{
		{sideOurs, 1, 10_000}, {sideFloor, 1, 10_000}, {sideReference, 1, 1000}, {sideBullMQ, 1, 1000},
		{sideOurs, 0.1, 1000}, {sideReference, 0.1, 300},
	} {
		if got := w.tasks(c.side, c.scale); got != c.want {
			t.Errorf("%d tasks of %s at scale %v, want %d", got, c.side, c.scale, c.want)
		}
	}
	w.share = 0
	if got := w.tasks(sideReference, 1); got != 10_000 {
		t.Errorf("%d tasks without a share", got)
	}
	if got := w.tasks(sideBullMQ, 1); got != 10_000/bullMQShare {
		t.Errorf("%d tasks of BullMQ without a share", got)
	}
}

// A profile has the name of its workload, side and round.
func TestProfile(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	server, err := startRedis(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.stop)
	w := find(name("enqueue", "goroutines", 8))
	w.sides = floored
	b := &bench{options: &options{rounds: 2, scale: 0.01, profile: t.TempDir()}, server: server, log: io.Discard}
	if _, err := b.alternate(t.Context(), []*workload{w}); err != nil {
		t.Fatal(err)
	}
	for _, side := range w.sides {
		for _, round := range []string{"1", "2"} {
			info, err := os.Stat(filepath.Join(b.profile, "enqueue_goroutines_8-"+side+"-"+round+".pprof"))
			if err != nil || info.Size() == 0 {
				t.Errorf("%v: %v", info, err)
			}
		}
	}
}

func TestInitCost(t *testing.T) {
	t.Parallel()
	log := `init internal/bytealg @0.007 ms, 0.5 ms clock, 0 bytes, 0 allocs
init example.com/lib @1.2 ms, 0.25 ms clock, 1000 bytes, 3 allocs
init example.com/lib/internal/x @1.5 ms, 4 ms clock, 24 bytes, 1 allocs
init example.com/library @2 ms, 100 ms clock, 5000 bytes, 2 allocs
`
	if got, want := initCost(log, "example.com/lib"), (inits{Millis: 4.25, Bytes: 1024}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWorkloadsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	list := workloads(true)
	for _, d := range dimensions(false) {
		list = append(list, d.workloads()...)
	}
	for _, w := range list {
		if seen[w.name] {
			t.Errorf("duplicate workload %s", w.name)
		}
		seen[w.name] = true
		if got := find(w.name); got == nil || got.name != w.name {
			t.Errorf("%s is not found by its name", w.name)
		}
	}
	if find("something else") != nil {
		t.Error("found an unknown workload")
	}
}

func TestFailedLaneReportsReason(t *testing.T) {
	t.Parallel()
	_, err := spawn(t.Context(), &laneConfig{Workload: "nonsense", Side: sideOurs})
	if err == nil || !strings.Contains(err.Error(), "unknown lane asynq-go of nonsense") {
		t.Errorf("got %v", err)
	}
}

// A short measurement that detects large regressions. It uses a separate program without the race
// detector.
func TestGuard(t *testing.T) {
	proctest.NeedRedis(t)
	program := filepath.Join(t.TempDir(), "bench.exe")
	run := func(ctx context.Context, name string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		t.Logf("%s", bytes.TrimSpace(out))
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t.Context(), "go", "build", "-race=false", "-o", program, ".")
	run(t.Context(), program, "-guard")
}
