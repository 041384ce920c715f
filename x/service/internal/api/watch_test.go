package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// meter counts task state reads and the round trips that they need.
type meter struct {
	mu           sync.Mutex
	looks, trips int
	target       int
	reached      chan struct{} // closed when looks reaches target
}

func (m *meter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.count(cmd)
		return next(ctx, cmd)
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		m.count(cmds...)
		return next(ctx, cmds)
	}
}

func (m *meter) count(cmds ...redis.Cmder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name := cmds[0].Name(); name != "hget" {
		return
	}
	m.looks, m.trips = m.looks+len(cmds), m.trips+1
	if m.target > 0 && m.looks >= m.target {
		m.target = 0
		close(m.reached)
	}
}

const timeout = time.Minute

// 1,000 waiters for as many tasks cost two round trips per tick, and receive only the states of
// their own tasks.
func TestManyWaitersShareRoundTrips(t *testing.T) {
	t.Parallel()
	const tasks, rounds = 1000, 4
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	m := &meter{target: rounds * tasks, reached: make(chan struct{})}
	client.AddHook(m)
	inspector := asynq.NewInspectorFromRedisClient(client)
	batch := make([]*asynq.Task, tasks)
	for n := range batch {
		batch[n] = asynq.NewTask("t", nil, asynq.Queue(fmt.Sprint("q", n%3)), asynq.TaskID(fmt.Sprint(n)))
	}
	for _, r := range asynq.NewClientFromRedisClient(client).BatchEnqueueContext(t.Context(), batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	a := New(Config{Inspector: inspector})
	defer a.Close()
	waits := make([]*wait, tasks)
	for n := range waits {
		waits[n] = a.watcher.watch(fmt.Sprint("q", n%3), fmt.Sprint(n))
	}
	select {
	case <-m.reached:
	case <-time.After(timeout):
		t.Fatal("the tasks are not polled")
	}
	m.mu.Lock()
	looks, trips := m.looks, m.trips
	m.mu.Unlock()
	// Two per round, and some more because ticks fall between the first and the last waiter.
	if limit := 10 * rounds; trips > limit {
		t.Errorf("%d round trips for %d reads, want at most %d", trips, looks, limit)
	}

	if err := errors.Join(inspector.ArchiveTask("q1", "1"), inspector.DeleteTask("q2", "2")); err != nil {
		t.Fatal(err)
	}
	a.Hint("q1", "1")
	for n, ended := range map[int]func(taskState) bool{
		0: func(s taskState) bool { return s.State == asynq.TaskStatePending },
		1: func(s taskState) bool { return s.State == asynq.TaskStateArchived },
		2: func(s taskState) bool { return errors.Is(s.Err, asynq.ErrTaskNotFound) },
	} {
		timeout := time.After(timeout)
		for heard := false; !heard; {
			select {
			case seen := <-waits[n].updates:
				heard = ended(seen)
			case <-timeout:
				t.Fatalf("the waiter for task %d was not notified", n)
			}
		}
	}
	for _, w := range waits {
		w.leave()
	}
	again := a.watcher.watch("q0", "0") // restarts the watcher
	defer again.leave()
	select {
	case seen := <-again.updates:
		if seen.State != asynq.TaskStatePending {
			t.Errorf("saw %+v", seen)
		}
	case <-time.After(timeout):
		t.Error("the watcher has stopped")
	}
}
