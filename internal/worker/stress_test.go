package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
)

// chaos is a rig with failures: connections are cut, queues reply with errors, and handlers fail in
// all ways.
type chaos struct {
	*rig
	mu     sync.Mutex
	random *rand.Rand
	runs   map[string]int // task → number of handler calls
	atOnce atomic.Int32
	quiet  atomic.Bool // no more failures
}

func newChaos(t *testing.T, seed uint64, tasks int) *chaos {
	queues := map[string]int{"high": 3, "low": 1, "other": 2}
	slots := 5
	if seed%3 == 1 {
		slots = 2 * minSecond // enough for two round trips in flight
	}
	c := &chaos{
		rig:    newRig(t, slots, queues, []string{"high", "low"}, []string{"other"}),
		random: rand.New(rand.NewPCG(seed, 0)),
		runs:   make(map[string]int),
	}
	c.memory.latency = time.Millisecond
	c.cfg.RetryDelay = func(*Attempt, error) time.Duration { return 100 * time.Millisecond }
	c.rig.handle = c.handle
	c.memory.failure = c.failure
	for name := range queues {
		for i := range tasks {
			c.addSilently(name, fmt.Sprint(name, i))
		}
	}
	return c
}

func (c *chaos) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaos) failure(*rdb.RoundTrip) failure {
	if c.quiet.Load() {
		return noFailure
	}
	switch c.intN(12) {
	case 0:
		return lost
	case 1:
		return replyLost
	default:
		return noFailure
	}
}

func (c *chaos) handle(ctx context.Context, a *Attempt) error {
	if n := c.atOnce.Add(1); int(n) > c.cfg.Concurrency {
		c.t.Errorf("%d handlers run at the same time", n)
	}
	defer c.atOnce.Add(-1)
	c.mu.Lock()
	c.runs[a.Message.ID]++
	c.mu.Unlock()
	if c.intN(2) == 0 {
		select {
		case <-time.After(time.Duration(c.intN(50)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
	switch c.intN(12) {
	case 0:
		return errTask
	case 1:
		panic("no good")
	case 2:
		runtime.Goexit()
	}
	return nil
}

// disturb makes queues fail for a while, repeatedly, until the failures are over.
func (c *chaos) disturb() {
	names := []string{"high", "low", "other"}
	for !c.quiet.Load() {
		time.Sleep(time.Duration(c.intN(1000)) * time.Millisecond)
		queue, failing := names[c.intN(len(names))], error(nil)
		if c.intN(2) == 0 {
			failing = errCut
		}
		c.set(func() { c.refuse[queue], c.failing = errWrongType, failing })
		time.Sleep(time.Duration(c.intN(500)) * time.Millisecond)
		c.set(func() { clear(c.refuse); c.failing = nil })
	}
}

// count returns the number of tasks by state.
func (c *chaos) count() map[string]int {
	n := make(map[string]int)
	c.set(func() {
		for _, q := range c.queues {
			for _, task := range q.tasks {
				n[task.state]++
			}
		}
	})
	return n
}

// mustHaveRun checks that no attempt was made twice or lost: each attempt is either the last one or
// counted as a retry.
func (c *chaos) mustHaveRun() {
	c.t.Helper()
	for name, q := range c.queues {
		for id := range q.tasks {
			state, msg := c.state(name, id)
			want := msg.Retried
			if state == "done" || state == "archived" {
				want++
			}
			if got := c.runs[id]; got != want {
				c.t.Errorf("%s is %s after %d retries, and ran %d times", id, state, msg.Retried, got)
			}
		}
	}
}

// With any failures of connections and queues, each task gets its outcome, and no attempt is made
// twice.
func TestStressFailures(t *testing.T) {
	for seed := range uint64(8) {
		synctestRun(t, func(t *testing.T) {
			const tasks = 60
			c := newChaos(t, seed, tasks)
			loops := c.run()
			var trouble sync.WaitGroup
			trouble.Go(c.disturb)
			for range 600 {
				time.Sleep(time.Second)
				if n := c.count(); n["done"]+n["archived"] == 3*tasks {
					break
				}
			}
			c.quiet.Store(true)
			trouble.Wait()
			c.pool.StopFetching()
			if err := c.drain(time.Minute); err != nil {
				t.Error(err)
			}
			c.stop(loops)
			if n := c.count(); n["done"]+n["archived"] != 3*tasks {
				t.Errorf("at the end there are %v", n)
			}
			c.mustHaveRun()
			c.mustBeFree()
		})
	}
}

// While the number of slots and the paused queues change, no attempt is lost or made twice, and
// soon after each change no more handlers run than there are slots, and none of a paused queue.
func TestStressResize(t *testing.T) {
	for seed := range uint64(8) {
		synctestRun(t, func(t *testing.T) {
			const tasks = 600
			c := newChaos(t, seed, tasks)
			c.cfg.Concurrency = 100 // the limit that the handlers check
			c.quiet.Store(seed%2 == 0)
			c.rig.handle = func(ctx context.Context, a *Attempt) error {
				time.Sleep(40 * time.Millisecond)
				return c.handle(ctx, a)
			}
			busy := 0
			loops := c.run()
			for n := range 20 {
				size := 1 + c.intN(60)
				c.pool.Resize(size)
				c.pool.PauseQueue("low", n%3 == 1)
				time.Sleep(100 * time.Millisecond) // the handlers that run end within 90 ms
				for range 5 {
					time.Sleep(7 * time.Millisecond)
					running := c.pool.Running()
					if busy += len(running); len(running) > size {
						t.Errorf("%d handlers run with %d slots", len(running), size)
					}
					for _, a := range running {
						if n%3 == 1 && a.Queue == "low" {
							t.Error("a task of a paused queue runs")
						}
					}
				}
			}
			if busy < 500 {
				t.Errorf("found only %d running handlers", busy)
			}
			c.pool.PauseQueue("low", false)
			c.quiet.Store(true)
			for range 600 {
				time.Sleep(time.Second)
				if n := c.count(); n["done"]+n["archived"] == 3*tasks {
					break
				}
			}
			c.pool.StopFetching()
			if err := c.drain(time.Minute); err != nil {
				t.Error(err)
			}
			c.stop(loops)
			if n := c.count(); n["done"]+n["archived"] != 3*tasks {
				t.Errorf("at the end there are %v", n)
			}
			c.mustHaveRun()
			c.pool.Resize(100)
			c.mustBeFree()
		})
	}
}

// If a server is stopped at any time, no task stays active, and none is lost.
func TestStressLifecycle(t *testing.T) {
	for seed := range uint64(40) {
		synctestRun(t, func(t *testing.T) {
			c := newChaos(t, seed, 30)
			c.quiet.Store(seed%2 == 0)
			loops := c.run()
			var others sync.WaitGroup
			others.Go(c.disturb)
			others.Go(func() {
				for !c.quiet.Load() {
					time.Sleep(10 * time.Millisecond)
					c.pool.Cancel(fmt.Sprint("high", c.intN(30)))
					c.pool.Running()
				}
			})
			time.Sleep(time.Duration(c.intN(300)) * time.Millisecond)
			c.shutDown(loops)
			c.quiet.Store(true)
			others.Wait()
			if n := c.count(); n["active"] != 0 || n["pending"]+n["retry"]+n["done"]+n["archived"] != 3*30 {
				t.Errorf("at the end there are %v", n)
			}
			if open := c.pool.Open(); open != 0 {
				t.Errorf("%d attempts are open", open)
			}
		})
	}
}

// shutDown stops the rig as a server does. The failures end during the shutdown.
func (c *chaos) shutDown(loops *runner.Runner) {
	c.pool.StopFetching()
	if err := loops.Stop(context.Background(), stageIntake); err != nil {
		c.t.Error(err)
	}
	if c.drain(time.Duration(c.intN(30))*time.Millisecond) != nil {
		c.pool.Abort()
		c.quiet.Store(true)
		if err := c.drain(time.Minute); err != nil {
			c.t.Error(err)
		}
	}
	c.stop(loops)
}
