package step_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/step"
)

const (
	// childEnv has the URI of Redis in a child process: a server with one slot, which the test
	// kills. It prints a line at each point of its handler.
	childEnv = "ASYNQ_TEST_STEP_CHILD"
	// killsEnv is how many processes the test kills in place of defaultKills.
	killsEnv     = "ASYNQ_TEST_STEP_KILLS"
	defaultKills = 100
	// children is how many processes run at a time.
	children = 4
	// tasksPerKill is how many tasks are enqueued for each process.
	tasksPerKill = 3
)

// runSteps are the names of the steps of a task that have an effect.
var runSteps = []string{"a", "b", "c"}

// child is the handler of a child process. The keys that it writes are not of the library.
type child struct{ rdb *redis.Client }

func runChild(uri string) int {
	opt, err := asynq.ParseRedisURI(uri)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c := &child{rdb: opt.MakeRedisClient().(*redis.Client)}
	srv := asynq.NewServer(opt, asynq.Config{
		Concurrency: 1, LeaseDuration: time.Second, DelayedTaskCheckInterval: 50 * time.Millisecond,
		Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err := srv.Start(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it or exits
	srv.Shutdown()
	return 0
}

func (c *child) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	fmt.Println("start", id)
	for i, name := range runSteps {
		value, err := step.Run(ctx, name, func(ctx context.Context) (int64, error) {
			fmt.Println("effect", id, name)
			n, err := c.rdb.Incr(ctx, "effects:"+id+":"+name).Result()
			fmt.Println("record", id, name)
			return n, err
		})
		if err != nil {
			return err
		}
		fmt.Println("recorded", id, name)
		if err := c.rdb.SAdd(ctx, "values:"+id+":"+name, value).Err(); err != nil {
			return err
		}
		switch i {
		case 0:
			err = step.Sleep(ctx, "nap", 10*time.Millisecond)
		case 1:
			_, err = step.WaitSignal[string](ctx, "go", time.Hour)
		}
		if err != nil {
			fmt.Println("suspended", id)
			return err
		}
	}
	return c.rdb.Incr(ctx, "done:"+id).Err()
}

// process is a running child process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan struct{} // closed when its output ends
}

func startChild(env *testenv.Env) *process {
	env.T.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), lines: make(chan struct{}, 1000)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+env.URI())
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	env.NoError(err)
	stdout, err := p.cmd.StdoutPipe()
	env.NoError(err)
	proctest.DieWithParent(p.cmd)
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		env.T.Error(err)
		close(p.lines)
		return p
	}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			select {
			case p.lines <- struct{}{}:
			default: // no more are counted
			}
		}
	}()
	return p
}

// kill ends the process after a number of lines, and a moment.
func (p *process) kill(after int, moment time.Duration, stop <-chan time.Time) {
	for range after {
		select {
		case <-p.lines:
		case <-stop:
		}
	}
	time.Sleep(moment)
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have exited
	}
	p.wait()
}

// end lets the process shut down.
func (p *process) end() {
	_ = p.stdin.Close()
	p.wait()
}

func (p *process) wait() {
	for range p.lines { // until its output ends
	}
	_ = p.cmd.Wait() // returns that it was killed
	_ = p.stdin.Close()
}

// Processes are killed at random moments while they run steps, sleep and wait. Each step has one
// value in all attempts, and at most one effect more for each kill. All tasks end, so no signal is
// lost.
func TestKilledProcesses(t *testing.T) {
	kills := defaultKills
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = n
	}
	testenv.Each(t, func(env *testenv.Env) {
		var tasks []string
		var mu sync.Mutex
		var senders sync.WaitGroup
		add := func(kill int) {
			for i := range tasksPerKill {
				id := fmt.Sprint("t", kill, "-", i)
				mu.Lock()
				tasks = append(tasks, id)
				mu.Unlock()
				if _, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id), asynq.MaxRetry(1000)); err != nil {
					env.T.Error(err)
				}
				senders.Add(1)
				time.AfterFunc(rand.N(300*time.Millisecond), func() { // before, while, or after it waits
					defer senders.Done()
					if err := env.Client.Signal(context.Background(), "default", id, "go", id); err != nil {
						env.T.Error(err)
					}
				})
			}
		}
		next := make(chan int)
		var lanes sync.WaitGroup
		for range children {
			lanes.Add(1)
			go func() {
				defer lanes.Done()
				for kill := range next {
					add(kill)
					p := startChild(env)
					late := time.NewTimer(2 * time.Second) // all tasks may wait for leases to expire
					p.kill(1+rand.N(30), rand.N(2*time.Millisecond), late.C)
					late.Stop()
				}
			}()
		}
		for kill := range kills {
			next <- kill
		}
		close(next)
		lanes.Wait()
		senders.Wait()
		for range children {
			env.T.Cleanup(startChild(env).end)
		}
		env.AwaitEmpty()

		ctx, repeated := context.Background(), 0
		for _, id := range tasks {
			if n, _ := env.RDB.Get(ctx, "done:"+id).Int(); n < 1 {
				env.T.Errorf("task %s has not ended", id)
			}
			for _, name := range runSteps {
				if values := env.RDB.SMembers(ctx, "values:"+id+":"+name).Val(); len(values) != 1 {
					env.T.Errorf("step %s of task %s has the values %q", name, id, values)
				}
				effects, _ := env.RDB.Get(ctx, "effects:"+id+":"+name).Int()
				repeated += effects - 1
			}
		}
		env.T.Logf("%d tasks, %d kills, %d effects repeated", len(tasks), kills, repeated)
		if repeated > kills || repeated < 0 {
			env.T.Errorf("%d effects were repeated after %d kills", repeated, kills)
		}
		if keys := strings.Join(env.Keys(env.Queue.TaskPrefix()+"*"), " "); keys != "" {
			env.T.Errorf("left: %s", keys)
		}
	})
}
