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
	"github.com/asynq-go/asynq/x/interop/side"
)

// childEnv is "<library> <address>" in a process that is a server, until TERM ends it or it is killed. It is the test's binary
// again. It reports on its standard output when it starts and ends what: "start <task ID> <unix ns>".
const childEnv = "INTEROP_CHILD"

// childMembers is the type of the tasks that servers in processes of their own make of groups.
const childMembers = "members"

func runChild() {
	name, addr, _ := strings.Cut(os.Getenv(childEnv), " ")
	var mu sync.Mutex
	say := func(event, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(event, id, time.Now().UnixNano()) // one write, which the kernel keeps if this process is killed
	}
	srv := libraries[name].Server(addr, side.Config{Concurrency: 5, Queues: []string{"default"}, Aggregate: aggregateMembers})
	go func() {
		// The parent is gone: so must this be.
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

// aggregateMembers makes one task of a group's, whose payload names them.
func aggregateMembers(_ string, payloads [][]byte) side.Task {
	var b strings.Builder
	for _, p := range payloads {
		b.Write(p)
		b.WriteByte(' ')
	}
	return side.Task{Type: childMembers, Payload: []byte(b.String()), Retention: time.Hour}
}

// work does what the type of a task says.
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
	start, end int64 // unix ns; end 0: it has not ended
}

// record is what the children of a test have reported.
type record struct {
	mu      sync.Mutex
	runs    map[string][]*run // by the ID of the task
	members map[string]int    // how often a task came with a group
}

// child is a server in a process of its own.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	over  chan struct{} // closed when its output has ended
	first chan struct{} // closed when it runs its first task
	once  sync.Once
}

// spawn starts a child, which is killed when the test ends at the latest.
func (s *site) spawn(r *record, l side.Library) *child {
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

// end signals the child and waits until it is gone.
func (c *child) end(signal syscall.Signal) {
	select {
	case <-c.over:
		return
	default:
	}
	_ = c.cmd.Process.Signal(signal) // it may be gone
	late := time.AfterFunc(limit, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	<-c.over
	_ = c.cmd.Wait() // what ended it is known
	_ = c.stdin.Close()
}

func (r *record) note(c *child, line string) {
	var event, id string
	var at int64
	if _, err := fmt.Sscan(line, &event, &id, &at); err != nil {
		return // a line of the runtime's
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

// ended is how many tasks have run to an end.
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

// killed ends the runs of a child that is gone.
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

// overlaps lists tasks that two attempts had at once.
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
