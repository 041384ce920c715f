package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
)

// Parameters of TestKillsUnderLoad.
const (
	loadTasks    = 20_000
	orderedEvery = 40 // one in so many tasks goes to the queue "ordered", the others to "bulk"
	loadWorkers  = 8
	loadLease    = 3 * time.Second
)

// 20,000 tasks pass through 8 PHP workers while two workers and the service are killed with SIGKILL
// and restarted. No task is lost or enqueued twice, and tasks of the queue with max_run 1 start in
// order, one at a time.
func TestKillsUnderLoad(t *testing.T) {
	s := newEnv(t, loadLease)
	log := newLogbook(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)

	start := time.Now()
	newWorker := func() *process { return s.php(t, "worker.php", log.path, "50", "1", "ordered", "bulk") }
	workers := make([]*process, loadWorkers)
	for n := range workers {
		workers[n] = newWorker()
	}
	producer := s.php(t, "produce.php", fmt.Sprint(loadTasks), fmt.Sprintf("ordered:%d", orderedEvery), "bulk:1")

	killed := make(map[int]bool)
	kill := func(n int) {
		killed[workers[n].cmd.Process.Pid] = true
		workers[n].kill()
		workers[n] = newWorker()
	}
	restart := func() {
		s.service.kill()
		s.serve(t)
	}
	killAny := func() { kill(random.IntN(len(workers))) }
	killHolder := func() { // most likely holds an ordered task: its lease lasts until all 50 tasks are done
		var at int
		proctest.Eventually(t, "a worker starts an ordered task", func() bool {
			lines := log.lines()
			pid := holder(lines[max(0, len(lines)-20):])
			at = slices.IndexFunc(workers, func(w *process) bool { return w.cmd.Process.Pid == pid })
			return at >= 0
		})
		kill(at)
	}
	for n, fault := range []func(){killHolder, restart, killAny} {
		after := 2 * loadTasks * (1 + n*2 + random.IntN(2)) / 8 // log lines, two per task
		proctest.Eventually(t, "progress of the workers", func() bool { return len(log.lines()) >= after })
		fault()
	}
	producer.wait(t)
	drain(t, s, loadTasks)
	t.Logf("%d tasks in %v", loadTasks, time.Since(start).Round(time.Millisecond))
	for _, w := range workers {
		w.term(t)
	}
	checkLog(t, log.lines(), killed)
}

// Workflows continue while the only service is killed and restarted, and two of their workers. The
// tasks of each node are created once, after those of the node before have ended.
func TestWorkflowsSurviveKills(t *testing.T) {
	t.Parallel()
	const workflows, kills = 100, 6
	s := newEnv(t, shortLease)
	log := newLogbook(t)
	newWorker := func() *process { return s.php(t, "worker.php", log.path, "3", "5", "split", "part", "join") }
	workers := []*process{newWorker(), newWorker(), newWorker()}
	producer := s.php(t, "flows.php", fmt.Sprint(workflows))
	for n := range kills {
		after := 2 * 7 * workflows * (n + 1) / (kills + 2) // log lines, two for each of 7 tasks
		proctest.Eventually(t, "progress of the workers", func() bool { return len(log.lines()) >= after })
		s.service.kill()
		if n < 2 {
			workers[n].kill()
			workers[n] = newWorker()
		}
		s.serve(t)
	}
	producer.wait(t)
	flows := flow.Inspect(s.inspector(t))
	for w := range workflows {
		info, err := flows.Get(t.Context(), fmt.Sprint("w", w))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{1, 5, 1} {
			if n := info.Nodes[i]; n.Total != want || n.Succeeded != want {
				t.Errorf("workflow %d, node %s: %+v, want %d tasks", w, n.Name, n, want)
			}
		}
	}
	ended := make(map[string]bool)
	for _, line := range log.lines() {
		var what, typename string
		var n int
		if _, err := fmt.Sscan(line, &what, &typename, &n); err != nil {
			continue // "stopped"
		}
		task := func(typename string, n int) string { return fmt.Sprint(typename, " ", n) }
		if what == "end" {
			ended[task(typename, n)] = true
			continue
		}
		if typename == "part" && !ended[task("split", n/10*10)] {
			t.Errorf("part %d starts before its split has ended", n)
		}
		for i := 0; typename == "join" && i < 5; i++ {
			if !ended[task("part", n+i)] {
				t.Errorf("join %d starts before part %d has ended", n, n+i)
			}
		}
	}
	if len(ended) != 7*workflows {
		t.Errorf("%d tasks ended, want %d", len(ended), 7*workflows)
	}
}

// holder returns the process that last started an ordered task; 0 if none has.
func holder(lines []string) (pid int) {
	for _, line := range slices.Backward(lines) {
		if _, err := fmt.Sscanf(line, "begin ordered %d %d %d", new(int), new(int), &pid); err == nil {
			return pid
		}
	}
	return 0
}

// drain waits until the queues contain only this number of completed tasks.
func drain(t *testing.T, s *env, tasks int) {
	t.Helper()
	i := s.inspector(t)
	left := map[string]int{"ordered": tasks / orderedEvery, "bulk": tasks - tasks/orderedEvery}
	proctest.Eventually(t, "all tasks are completed", func() bool {
		for queue, want := range left {
			info, err := i.GetQueueInfo(queue)
			if err != nil {
				t.Fatal(err)
			}
			if info.Archived > 0 || info.Completed > want {
				t.Fatalf("queue %s: %d completed of %d, %d archived", queue, info.Completed, want, info.Archived)
			}
			if info.Size > info.Completed || info.Completed < want {
				return false
			}
		}
		return true
	})
}

// checkLog checks the log of the workers.
func checkLog(t *testing.T, lines []string, killed map[int]bool) {
	t.Helper()
	done := make(map[int]int)
	holder, last, retries := 0, -1, 0 // of the ordered queue: active process, last started task, number of retries
	for _, line := range lines {
		var what, typename string
		var n, attempt, pid int
		if _, err := fmt.Sscan(line, &what, &typename, &n, &attempt, &pid); err != nil {
			continue // "stopped"
		}
		if what == "end" {
			done[n]++
		}
		if typename != "ordered" {
			continue
		}
		if what == "end" {
			if holder != pid {
				t.Errorf("overlap: process %d ends task %d while %d is active", pid, n, holder)
			}
			holder = 0
			continue
		}
		if holder != 0 && !killed[holder] {
			t.Errorf("overlap: process %d starts task %d while %d is active", pid, n, holder)
		}
		holder = pid
		if attempt > 1 {
			retries++
		}
		if n < last || n == last && attempt == 1 {
			t.Errorf("order: attempt %d of task %d starts after task %d", attempt, n, last)
		}
		last = n
	}
	twice := 0
	for _, times := range done {
		twice += times - 1
	}
	if len(done) != loadTasks {
		t.Errorf("%d of %d tasks completed", len(done), loadTasks)
	}
	// Only work in progress during a kill may repeat: 50 tasks of each of two workers, and the
	// outcomes and takes of all eight workers that the service was handling.
	if limit := 50 * (2 + loadWorkers); twice > limit {
		t.Errorf("%d tasks ran again, want at most %d", twice, limit)
	}
	if retries > 2+1 {
		t.Errorf("%d retries in the ordered queue, want at most one per kill", retries)
	}
	t.Logf("repeated tasks: %d; retries in the ordered queue: %d", twice, retries)
}
