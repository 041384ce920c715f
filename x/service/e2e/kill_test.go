package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// What the storm is made of.
const (
	stormTasks   = 20_000
	stormEvery   = 40 // one task in so many is ordered; others are of the queue "bulk"
	stormWorkers = 8
	stormLease   = 3 * time.Second
)

// 20,000 tasks go through 8 workers in PHP, while two of them are killed and started again, and so is the service, with SIGKILL: none is
// lost, none made twice, and those of a queue with max_run 1 start in order and one after the other.
func TestStorm(t *testing.T) {
	s := newSite(t, stormLease)
	log := newLogbook(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)

	began := time.Now()
	newWorker := func() *process { return s.php(t, "worker.php", log.path, "50", "1", "ordered", "bulk") }
	workers := make([]*process, stormWorkers)
	for n := range workers {
		workers[n] = newWorker()
	}
	producer := s.php(t, "produce.php", fmt.Sprint(stormTasks), fmt.Sprintf("ordered:%d", stormEvery), "bulk:1")

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
	killHolder := func() { // of the ordered queue, most probably: its lease lasts until all 50 tasks are done
		var at int
		proctest.Eventually(t, "a worker begins an ordered task", func() bool {
			lines := log.lines()
			pid := holder(lines[max(0, len(lines)-20):])
			at = slices.IndexFunc(workers, func(w *process) bool { return w.cmd.Process.Pid == pid })
			return at >= 0
		})
		kill(at)
	}
	for n, trouble := range []func(){killHolder, restart, killAny} {
		after := 2 * stormTasks * (1 + n*2 + random.IntN(2)) / 8 // lines; a task has two
		proctest.Eventually(t, "workers have got on", func() bool { return len(log.lines()) >= after })
		trouble()
	}
	producer.wait(t)
	drain(t, s, stormTasks)
	t.Logf("%d tasks in %v", stormTasks, time.Since(began).Round(time.Millisecond))
	for _, w := range workers {
		w.term(t)
	}
	judge(t, log.lines(), killed)
}

// holder is the process that has begun an ordered task last; 0 if none has.
func holder(lines []string) (pid int) {
	for _, line := range slices.Backward(lines) {
		if _, err := fmt.Sscanf(line, "begin ordered %d %d %d", new(int), new(int), &pid); err == nil {
			return pid
		}
	}
	return 0
}

// drain waits until so many tasks are completed, and nothing else is there.
func drain(t *testing.T, s *site, tasks int) {
	t.Helper()
	i := s.inspector(t)
	left := map[string]int{"ordered": tasks / stormEvery, "bulk": tasks - tasks/stormEvery}
	proctest.Eventually(t, "all tasks are completed", func() bool {
		for queue, want := range left {
			info, err := i.GetQueueInfo(queue)
			if err != nil {
				t.Fatal(err)
			}
			if info.Archived > 0 || info.Completed > want {
				t.Fatalf("queue %s: %d completed of %d, %d archived", queue, info.Completed, want, info.Archived)
			}
			if info.Size > 0 || info.Completed < want {
				return false
			}
		}
		return true
	})
}

// judge holds what the workers did against what was promised.
func judge(t *testing.T, lines []string, killed map[int]bool) {
	t.Helper()
	done := make(map[int]int)
	holder, last, again := 0, -1, 0 // of the ordered queue: the process at work, the last task that was begun, and later attempts
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
				t.Errorf("overlap: process %d ends task %d while %d is at work", pid, n, holder)
			}
			holder = 0
			continue
		}
		if holder != 0 && !killed[holder] {
			t.Errorf("overlap: process %d begins task %d while %d is at work", pid, n, holder)
		}
		holder = pid
		if attempt > 1 {
			again++
		}
		if n < last || n == last && attempt == 1 {
			t.Errorf("order: attempt %d of task %d begins after task %d has", attempt, n, last)
		}
		last = n
	}
	twice := 0
	for _, times := range done {
		twice += times - 1
	}
	if len(done) != stormTasks {
		t.Errorf("%d tasks of %d were done", len(done), stormTasks)
	}
	// What was at work when something was killed may be done again, and no more: 50 tasks of each of two workers, and the outcomes and
	// takes of all eight that the service took with it.
	if limit := 50 * (2 + stormWorkers); twice > limit {
		t.Errorf("%d tasks were done again: want %d at most", twice, limit)
	}
	if again > 2+1 {
		t.Errorf("%d tasks of the ordered queue were tried again: want one at most for each kill", again)
	}
	t.Logf("done again: %d; later attempts in the ordered queue: %d", twice, again)
}
