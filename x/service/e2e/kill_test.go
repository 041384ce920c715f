package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
