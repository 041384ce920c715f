package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// Every workload comes to its end on every side, and measures something.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	list := workloads(true)
	for _, d := range dimensions(false) {
		list = append(list, d.workload(d.values[1]))
	}
	slices.Reverse(list) // those that wait longest first
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			server, err := startRedis()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.stop)
			for _, side := range w.lanes() {
				if side == sideBullMQ {
					continue // needs more than Go
				}
				if err := server.empty(t.Context()); err != nil {
					t.Fatal(err)
				}
				f, err := spawn(t.Context(), &laneOrder{
					Workload: w.name, Side: side, Addr: server.Addr(), Tasks: 20, Scale: 0.01, Soak: 2 * time.Second, Crowd: 20,
				})
				if err != nil {
					t.Fatalf("%s: %v", side, err)
				}
				if (f.Tasks < 20) != strings.HasPrefix(w.name, "idle/") || f.Seconds <= 0 || f.RedisCPU <= 0 || f.Mallocs <= 0 {
					t.Errorf("%s: %+v", side, f)
				}
				if f.Tasks > 0 && (f.Commands < 1 || f.RoundTrips < 1 || f.OwnCPU <= 0) {
					t.Errorf("%s: %+v", side, f)
				}
				waits := strings.HasPrefix(w.name, "late") || strings.HasPrefix(w.name, "latency")
				if waits != (f.Latency != nil) || (w.name == "soak") != (f.Trend != nil) {
					t.Errorf("%s: latency %+v, trend %+v", side, f.Latency, f.Trend)
				}
			}
		})
	}
}

func TestWorkloadsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	list := workloads(true)
	for _, d := range dimensions(false) {
		for _, v := range d.values {
			list = append(list, d.workload(v))
		}
	}
	for _, w := range list {
		if seen[w.name] {
			t.Errorf("there are two workloads %s", w.name)
		}
		seen[w.name] = true
		if got := find(w.name); got == nil || got.name != w.name {
			t.Errorf("%s is not found by its name", w.name)
		}
	}
	if find("something else") != nil {
		t.Error("there is something else")
	}
}

func TestLaneThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := spawn(t.Context(), &laneOrder{Workload: "nonsense", Side: sideOurs})
	if err == nil || !strings.Contains(err.Error(), "there is no lane asynq-go of nonsense") {
		t.Errorf("got %v", err)
	}
}

// A short measurement that notices if much of the speed is lost. It is made with a program of its own, which has no race detector.
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
