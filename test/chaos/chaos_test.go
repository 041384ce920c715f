package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/chaos/checker"
	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/history"
	"github.com/asynq-go/asynq/test/chaos/node"
	"github.com/asynq-go/asynq/test/chaos/site"
)

// parallelRuns is the number of concurrent runs, which mostly wait, regardless of the number of
// CPUs.
const parallelRuns = 3

// The processes of a run are the test binary.
func TestMain(m *testing.M) {
	node.Main()
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := p.Value.Set(strconv.Itoa(max(parallelRuns, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// A short version of `make chaos`: a run on each kind of site with a fixed seed.
func TestChaos(t *testing.T) {
	proctest.NeedRedis(t)
	for _, o := range []options{
		{Site: node.Standalone, Fsync: site.Always, Length: 40 * time.Second, Tasks: 6000},
		{Site: node.Sentinel, Fsync: site.EverySecond, Length: 30 * time.Second, Tasks: 3000},
		{Site: node.Cluster, Fsync: site.EverySecond, Length: 40 * time.Second, Tasks: 6000},
	} {
		t.Run(o.Site, func(t *testing.T) {
			t.Parallel()
			o.Library, o.Every, o.Seed, o.Lease, o.Poison, o.Dir = node.Ours, 2500*time.Millisecond, 1, 4*time.Second, true, keptDir(t)
			out := runChaos(t, &o)
			if !out.report.OK() {
				t.Errorf("seed %d:\n%s", o.Seed, out)
			}
			if out.report.Accepted < o.Tasks/2 || len(out.faults) < 10 {
				t.Errorf("only %d of %d tasks were accepted, and %d faults happened", out.report.Accepted, o.Tasks, len(out.faults))
			}
		})
	}
}

// The checker detects a violation in a real run whose history is changed.
func TestChaosCanFail(t *testing.T) {
	proctest.NeedRedis(t)
	o := options{
		Site: node.Standalone, Fsync: site.Always, Length: 2 * time.Second, Tasks: 400, Library: node.Ours, Every: time.Second, Seed: 1,
		Lease: 4 * time.Second, Dir: t.TempDir(), Only: []fault.Kind{fault.ScriptFlush},
	}
	if out := runChaos(t, &o); !out.report.OK() {
		t.Fatal(out)
	}
	events, err := history.Read(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes int
	less := events[:0:0]
	for _, e := range events {
		if e.Kind == history.Outcome {
			if outcomes++; outcomes == 1 {
				continue
			}
		}
		less = append(less, e)
	}
	if r := checker.Check(less, o.rules()); r.OK() || outcomes < 100 {
		t.Errorf("one of %d outcomes is missing, but not reported:\n%s", outcomes, r)
	}
}

// keptDir returns a directory that is kept if the test fails.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "asynq-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("history:", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func runChaos(t *testing.T, o *options) *result {
	t.Helper()
	var err error
	if o.Program, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(o.Dir, "run")
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := run(context.Background(), o, testLog{t})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type testLog struct{ t *testing.T }

func (l testLog) Write(text []byte) (int, error) {
	l.t.Log(string(text))
	return len(text), nil
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-tasks", "0"}, {"-length", "-1s"}, {"-lease", "1ms"}, {"extra"}, {"-only", "worker kill,nothing"}, {"-except", "x"}, {"-nonsense"},
	} {
		if err := command(context.Background(), args, testLog{t}, testLog{t}); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// 100 tasks/s before a fault, none during it, and 90 tasks/s from a second after its end.
func TestRecoveryTimes(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	var events []history.Event
	for i := range int64(1000) {
		events = append(events, history.Event{Kind: history.Finished, At: i * second / 100})
	}
	events = append(events, history.Event{Kind: history.Fault, Name: "x", Targets: []string{"*"}, At: 10 * second, Until: 12 * second})
	for i := range int64(900) {
		events = append(events, history.Event{Kind: history.Finished, At: 13*second + i*second/90})
	}
	got := recoveryTimes(events)["x"]
	if want := 1090 * time.Millisecond; (got - want).Abs() > 20*time.Millisecond { // 8 of 9 are in the window
		t.Errorf("got %v, want about %v: %s", got, want, fmt.Sprint(recoveryTimes(events)))
	}
}

// While a shard is dead, the queues of the others keep at least 80 % of their rate.
func TestDeadShard(t *testing.T) {
	proctest.NeedRedis(t)
	o := options{
		Site: node.Cluster, Fsync: site.EverySecond, Length: 14 * time.Second, Tasks: 8400, Library: node.Ours, Every: 7 * time.Second, Seed: 1,
		Lease: 10 * time.Second, Dir: keptDir(t), Only: []fault.Kind{fault.DeadShard},
	}
	if out := runChaos(t, &o); !out.report.OK() {
		t.Error(out)
	}
	events, err := history.Read(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dead := events[slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Fault })]
	from := dead.At - int64(4*time.Second)
	offeredBefore, offered := rates(events, history.Offered, from, dead.At), rates(events, history.Offered, dead.At, dead.Until)
	finishedBefore, finished := rates(events, history.Finished, from, dead.At), rates(events, history.Finished, dead.At, dead.Until)
	const queues = queuesPerShard + 3 // of each shard; three have partitions
	var kept int
	for queue, rate := range finishedBefore {
		// On a busy machine all slows down, so the rate is compared with that of new tasks.
		if finished[queue] >= 0.8*rate*offered[queue]/offeredBefore[queue] && offered[queue] >= 0.3*offeredBefore[queue] {
			kept++
		}
	}
	if want := queues * 2; kept < want || len(finishedBefore) != queues*3 {
		t.Errorf("%d queues kept 80 %% of their rate, want %d: before, %v offered and %v finished; with a dead shard for %v, %v and %v",
			kept, want, offeredBefore, finishedBefore, time.Duration(dead.Until-dead.At), offered, finished)
	}
}
