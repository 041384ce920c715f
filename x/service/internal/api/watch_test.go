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

// meter counts the looks at tasks, and the round trips that they took.
type meter struct {
	mu           sync.Mutex
	looks, trips int
	target       int
	reached      chan struct{} // closed when there are so many looks
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

const patience = 20 * time.Second

// 1,000 who wait for as many tasks cost two round trips a tick, and hear of the ends of their own tasks only.
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
	case <-time.After(patience):
		t.Fatal("the tasks are not looked at")
	}
	m.mu.Lock()
	looks, trips := m.looks, m.trips
	m.mu.Unlock()
	// Two for each round, and some more where ticks fall between the first and the last of those that come.
	if limit := 10 * rounds; trips > limit {
		t.Errorf("%d round trips for %d looks: want %d at most", trips, looks, limit)
	}

	if err := errors.Join(inspector.ArchiveTask("q1", "1"), inspector.DeleteTask("q2", "2")); err != nil {
		t.Fatal(err)
	}
	a.Hint("q1", "1")
	for n, ended := range map[int]func(sighting) bool{
		0: func(s sighting) bool { return s.State == asynq.TaskStatePending },
		1: func(s sighting) bool { return s.State == asynq.TaskStateArchived },
		2: func(s sighting) bool { return errors.Is(s.Err, asynq.ErrTaskNotFound) },
	} {
		timeout := time.After(patience)
		for heard := false; !heard; {
			select {
			case seen := <-waits[n].news:
				heard = ended(seen)
			case <-timeout:
				t.Fatalf("who waits for task %d has not heard of it", n)
			}
		}
	}
	for _, w := range waits {
		w.leave()
	}
	again := a.watcher.watch("q0", "0") // it begins anew
	defer again.leave()
	select {
	case seen := <-again.news:
		if seen.State != asynq.TaskStatePending {
			t.Errorf("saw %+v", seen)
		}
	case <-time.After(patience):
		t.Error("the watcher has ended")
	}
}
