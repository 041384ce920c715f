package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/test/interop/side"
)

// childEnv is "<library> <address>" in a child process, which is the test binary as a server. It
// runs until SIGTERM or SIGKILL, and reports the start and end of tasks on standard output: "start
// <task ID> <unix ns>".
const childEnv = "INTEROP_CHILD"

// childMembers is the type of the tasks that child servers aggregate from groups.
const childMembers = "members"

func runChild() {
	name, addr, _ := strings.Cut(os.Getenv(childEnv), " ")
	var mu sync.Mutex
	say := func(event, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(event, id, time.Now().UnixNano()) // one write, which survives a kill
	}
	srv := libraries[name].Server(addr, side.Config{Concurrency: 5, Queues: []string{"default"}, Aggregate: aggregateMembers})
	go func() {
		// The parent has exited.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	err := srv.Run(func(ctx context.Context, j *side.Job) error {
		say("start", j.ID)
		defer say("end", j.ID)
		if j.Type == childMembers {
			for id := range strings.FieldsSeq(string(j.Payload)) {
				say("member", id)
			}
			return nil
		}
		return work(ctx, j)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// aggregateMembers returns one task for a group, whose payload lists the tasks.
func aggregateMembers(_ string, payloads [][]byte) side.Task {
	var b strings.Builder
	for _, p := range payloads {
		b.Write(p)
		b.WriteByte(' ')
	}
	return side.Task{Type: childMembers, Payload: []byte(b.String()), Retention: time.Hour}
}

// work processes a task according to its type.
func work(ctx context.Context, j *side.Job) error {
	switch j.Type {
	case "block":
		<-ctx.Done()
		return ctx.Err()
	case "flaky": // fails at first
		if j.Retried == 0 {
			return errors.New("not yet")
		}
	case "nap":
		ms, err := strconv.Atoi(string(j.Payload))
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	return nil
}

// run is an attempt of a task.
type run struct {
	child      *child
	start, end int64 // unix ns; end is 0 while it runs
}

// record holds the reports of the child processes.
type record struct {
	mu      sync.Mutex
	runs    map[string][]*run // by task ID
	members map[string]int    // number of aggregations by task
}

// child is a child process with a server.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	over  chan struct{} // closed at the end of its output
	first chan struct{} // closed when its first task starts
	once  sync.Once
}

// spawn starts a child, which is killed when the test ends.
func (s *env) spawn(r *record, l side.Library) *child {
	s.Helper()
	c := &child{name: l.Name(), cmd: exec.Command(os.Args[0]), over: make(chan struct{}), first: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+l.Name()+" "+s.addr)
	c.cmd.Stderr = os.Stderr
	proctest.DieWithParent(c.cmd)
	stdin, err := c.cmd.StdinPipe()
	s.must(err)
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	s.must(err)
	s.must(c.cmd.Start())
	go func() {
		defer close(c.over)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			r.note(c, lines.Text())
		}
	}()
	s.Cleanup(func() { c.end(syscall.SIGKILL) })
	return c
}

// end sends a signal to the child and waits until it exits.
func (c *child) end(signal syscall.Signal) {
	select {
	case <-c.over:
		return
	default:
	}
	_ = c.cmd.Process.Signal(signal) // may have exited
	late := time.AfterFunc(limit, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	<-c.over
	_ = c.cmd.Wait() // ended by a signal
	_ = c.stdin.Close()
}

func (r *record) note(c *child, line string) {
	var event, id string
	var at int64
	if _, err := fmt.Sscan(line, &event, &id, &at); err != nil {
		return // output of the runtime
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch event {
	case "start":
		c.once.Do(func() { close(c.first) })
		r.runs[id] = append(r.runs[id], &run{child: c, start: at})
	case "end":
		for _, run := range r.runs[id] {
			if run.child == c && run.end == 0 {
				run.end = at
			}
		}
	case "member":
		r.members[id]++
	}
}

// ended returns the number of tasks that have ended.
func (r *record) ended() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, runs := range r.runs {
		for _, run := range runs {
			if run.end != 0 {
				n++
				break
			}
		}
	}
	return n
}

// killed ends the runs of a killed child.
func (r *record) killed(c *child) {
	now := time.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, runs := range r.runs {
		for _, run := range runs {
			if run.child == c && run.end == 0 {
				run.end = now
			}
		}
	}
}

// overlaps lists tasks with concurrent attempts.
func (r *record) overlaps() (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, runs := range r.runs {
		for i, a := range runs {
			for _, b := range runs[:i] {
				if (a.end == 0 || b.start < a.end) && (b.end == 0 || a.start < b.end) {
					var all strings.Builder
					for _, run := range runs {
						fmt.Fprintf(&all, " %s %d from %d to %d;", run.child.name, run.child.cmd.Process.Pid, run.start, run.end)
					}
					found = append(found, id+":"+all.String())
				}
			}
		}
	}
	return found
}

func newRecord() *record {
	return &record{runs: make(map[string][]*run), members: make(map[string]int)}
}
