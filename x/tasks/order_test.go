//go:build unix

package tasks_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/tasks"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		os.Exit(runChild(addr))
	}
	os.Exit(m.Run())
}

// crew holds the worker processes of a test and their reports.
type crew struct {
	*testing.T
	addr  string
	begun time.Time

	mu      sync.Mutex
	workers []*worker // all that were started, by number
	runs    map[string][]*run
	faults  []fault
	open    map[string]*run // latest run by queue
	changed chan struct{}   // closed with the next report
}

type worker struct {
	cmd   *exec.Cmd
	input io.Closer
	ready chan struct{}
	gone  chan struct{}
	dead  bool // killed or terminated
	busy  bool // reserved for a fault
}

func newCrew(t *testing.T, n int) *crew {
	c := &crew{T: t, addr: proctest.StartRedis(t).Addr(), begun: time.Now(), runs: make(map[string][]*run), open: make(map[string]*run), changed: make(chan struct{})}
	t.Cleanup(c.end)
	for range n {
		c.start()
	}
	for _, w := range c.workers {
		select {
		case <-w.ready:
		case <-w.gone:
			t.Fatal("a worker did not start")
		case <-time.After(timeout):
			t.Fatal("a worker is not ready")
		}
	}
	return c
}

// start starts another worker.
func (c *crew) start() {
	cmd := exec.Command(os.Args[0], "-test.run=^$") //nolint:gosec // The test's own binary.
	cmd.Env = append(os.Environ(), childEnv+"="+c.addr)
	cmd.Stderr = os.Stderr
	proctest.DieWithParent(cmd)
	input, err1 := cmd.StdinPipe()
	output, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		c.Error(err)
		return
	}
	w := &worker{cmd: cmd, input: input, ready: make(chan struct{}), gone: make(chan struct{})}
	c.mu.Lock()
	number := len(c.workers)
	c.workers = append(c.workers, w)
	c.mu.Unlock()
	go func() {
		defer close(w.gone)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			c.report(number, w, lines.Text())
		}
		_ = cmd.Wait() // most are killed
	}()
}

// report records a report of a worker.
func (c *crew) report(number int, w *worker, line string) {
	var what, queue string
	var r run
	var ns int64
	if _, err := fmt.Sscan(line, &what, &queue, &r.task, &r.attempt, &r.ok, &ns); err != nil {
		c.Errorf("worker %d reported %q: %v", number, line, err)
		return
	}
	at := time.Unix(0, ns).Sub(c.begun.Round(0))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "ready":
		close(w.ready)
	case "begin":
		began := &run{worker: number, task: r.task, attempt: r.attempt, begin: at}
		c.runs[queue] = append(c.runs[queue], began)
		c.open[queue] = began
	case "end":
		for _, began := range c.runs[queue] {
			if began.worker == number && began.task == r.task && began.attempt == r.attempt {
				began.end, began.ok = at, r.ok
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits for a condition, which is evaluated under the lock.
func (c *crew) await(what string, cond func() bool) {
	timeout := time.After(timeout)
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			c.Errorf("timeout waiting for %s", what)
			return
		}
	}
}

// hangs waits until a task hangs and reserves its worker for a fault. ok is false if a random fault
// came first and another worker ran the task.
func (c *crew) hangs(queue string, task int) (number int, ok bool) {
	c.await(fmt.Sprintf("task %d of %s", task, queue), func() bool {
		r := c.open[queue]
		if r == nil || r.task < task {
			return false
		}
		if w := c.workers[r.worker]; r.task == task && r.attempt == 0 {
			ok = !w.busy && !w.dead
			w.busy = w.busy || ok
			number = r.worker
			return ok
		}
		return r.task > task
	})
	return number, ok
}

func (c *crew) workerAt(number int) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[number]
}

// kill kills a worker and starts another one.
func (c *crew) kill(number int) {
	w := c.workerAt(number)
	c.mu.Lock()
	w.dead = true
	c.faults = append(c.faults, fault{worker: number, from: time.Since(c.begun)})
	c.mu.Unlock()
	_ = w.cmd.Process.Signal(syscall.SIGKILL) // running a moment ago
	c.start()
}

// freeze stops a worker until another one continues in its queue, which takes at least a lease
// duration.
func (c *crew) freeze(number int, queue string, task int) {
	w := c.workerAt(number)
	from := time.Since(c.begun)
	c.mu.Lock()
	at := len(c.faults)
	c.faults = append(c.faults, fault{worker: number, from: from, to: from + time.Hour})
	c.mu.Unlock()
	_ = w.cmd.Process.Signal(syscall.SIGSTOP)
	c.await("another worker to continue", func() bool { r := c.open[queue]; return r.worker != number && r.task > task })
	c.mu.Lock()
	c.faults[at].to, w.busy = time.Since(c.begun), false
	c.mu.Unlock()
	_ = w.cmd.Process.Signal(syscall.SIGCONT)
}

// killAny kills a random worker that is not reserved.
func (c *crew) killAny(rnd *rand.Rand) {
	c.mu.Lock()
	var idle []int
	for number, w := range c.workers {
		if !w.dead && !w.busy {
			idle = append(idle, number)
		}
	}
	number := idle[rnd.IntN(len(idle))]
	c.workers[number].busy = true
	c.mu.Unlock()
	c.kill(number)
}

// end terminates all workers and waits for them.
func (c *crew) end() {
	for _, w := range c.workers {
		_ = w.cmd.Process.Signal(syscall.SIGTERM) // may have exited
	}
	late := time.AfterFunc(10*time.Second, func() {
		for _, w := range c.workers {
			_ = w.cmd.Process.Kill()
		}
	})
	defer late.Stop()
	for _, w := range c.workers {
		<-w.gone
		_ = w.input.Close()
	}
}

// succeeded returns the number of tasks of a queue that succeeded. The caller must hold the lock.
func (c *crew) succeeded(queue string) int {
	done := make(map[int]bool)
	for _, r := range c.runs[queue] {
		done[r.task] = done[r.task] || r.ok
	}
	n := 0
	for _, ok := range done {
		if ok {
			n++
		}
	}
	return n
}

// Five worker processes share two queues that run one task at a time, while workers are killed and
// frozen.
func TestOrderOverProcesses(t *testing.T) {
	t.Parallel()
	const n = 60
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not used for security
	c := newCrew(t, 5)
	client := tasks.NewClient(asynq.RedisClientOpt{Addr: c.addr})
	defer client.Close()
	for i := range n {
		step := step{N: i, Hang: i == 20 || i == 40}
		if i%30 == 7 {
			step.Fail = 1
		}
		_, err1 := strict.Enqueue(t.Context(), client, step)
		_, err2 := serial.Enqueue(t.Context(), client, step)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	var faults sync.WaitGroup
	for _, queue := range []string{"strict", "serial"} {
		faults.Go(func() {
			if number, ok := c.hangs(queue, 20); ok {
				c.kill(number)
			}
			if number, ok := c.hangs(queue, 40); ok {
				c.freeze(number, queue, 40)
			}
		})
	}
	faults.Go(func() {
		c.await("20 tasks", func() bool { return c.succeeded("strict") > 19 })
		c.killAny(rnd)
	})
	faults.Wait()
	c.await("all tasks", func() bool { return c.succeeded("strict") == n && c.succeeded("serial") == n })
	c.end()

	for queue, inOrder := range map[string]bool{"strict": true, "serial": false} {
		var runs []run
		overtook := false
		for i, r := range c.runs[queue] {
			runs = append(runs, *r)
			overtook = overtook || i > 0 && r.task < c.runs[queue][i-1].task
		}
		for _, wrong := range checkRuns(runs, c.faults, n, inOrder) {
			t.Errorf("%s, seed %d: %s", queue, seed, wrong)
		}
		t.Logf("%s: %d runs of %d tasks, %d faults in all; overtaken: %v", queue, len(runs), n, len(c.faults), overtook)
	}
}
