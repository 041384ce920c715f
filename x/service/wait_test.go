package service_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// waitMeter counts what a service sends while requests wait for tasks of the queue "w".
type waitMeter struct {
	mu       sync.Mutex
	reads    int // commands about tasks
	laps     int // calls that have waited for reports
	blocking int // of these, those that wait now
}

func (m *waitMeter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *waitMeter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		end := m.note(cmd)
		defer end()
		return next(ctx, cmd)
	}
}

func (m *waitMeter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			m.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func (m *waitMeter) note(cmd redis.Cmder) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := fmt.Sprint(cmd.Args()...)
	switch {
	case cmd.Name() == "blpop" && strings.Contains(text, ":replies:"):
		m.blocking++
		return func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.blocking--
			m.laps++
		}
	case strings.Contains(text, "asynq:{w}:t:"):
		m.reads++
	}
	return func() {}
}

func (m *waitMeter) values() (reads, laps, blocking int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads, m.laps, m.blocking
}

// newMeteredEnv starts a service whose commands are counted.
func newMeteredEnv(t *testing.T, opt asynq.RedisConnOpt) (*env, *waitMeter) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: opt.(asynq.RedisClientOpt).Addr})
	t.Cleanup(func() { _ = client.Close() })
	m := new(waitMeter)
	client.AddHook(m)
	return newEnv(t, asynq.SharedRedisClient(client), nil), m
}

// Requests that wait for tasks with a retention read them together and seldom, and receive the
// results at once, also from another instance.
func TestWaitsDoNotPoll(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s, m := newMeteredEnv(t, opt)
		other := newEnv(t, opt, nil)
		const tasks, prompt = 100, 9
		s.enqueue("w", tasks, `,"retention":"1h"`)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		results := make(map[string]chan struct{})
		var group sync.WaitGroup
		for i := range tasks {
			id, got := fmt.Sprint(i+1), make(chan struct{})
			results[id] = got
			group.Go(func() {
				r, err := s.try(ctx, all, "GET", "/v1/queues/w/tasks/"+id+"?wait=60s", "")
				if ctx.Err() == nil && (err != nil || r.status != 200 || r.str("task", "state") != "completed") {
					t.Errorf("task %s: %v, %v", id, r, err)
				}
				close(got)
			})
		}
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == tasks })
		waitLaps := func(n int) {
			_, before, _ := m.values()
			proctest.Eventually(t, "waits for reports", func() bool { _, laps, _ := m.values(); return laps >= before+n })
		}
		waitLaps(2)
		before, _, _ := m.values()
		waitLaps(3)
		if after, _, _ := m.values(); after-before > 20 {
			t.Errorf("%d commands read %d tasks during three laps", after-before, tasks)
		}
		leases, ids := other.take("w", prompt, "50s")
		var took []time.Duration
		for i, lease := range leases {
			began := time.Now()
			other.call("POST", "/v1/leases/"+lease+"/done", `{"result":42}`).want(200)
			<-results[ids[i]]
			took = append(took, time.Since(began))
		}
		if slices.Sort(took); len(took) < prompt || took[prompt/2] > 500*time.Millisecond {
			t.Errorf("results arrived after %v", took)
		}
		cancel()
		group.Wait()
	})
}

// Requests whose clients have disconnected leave nothing behind, and others for the same task keep
// waiting. A wait that is over returns the task as it is.
func TestWaitEndsWithItsClient(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s, m := newMeteredEnv(t, opt)
		s.enqueue("w", 1, `,"retention":"1h"`)
		const path = "/v1/queues/w/tasks/1?wait="
		ctx, cancel := context.WithCancel(context.Background())
		var gone, group sync.WaitGroup
		for range 5 {
			gone.Go(func() {
				if r, err := s.try(ctx, all, http.MethodGet, path+"60s", ""); err == nil {
					t.Errorf("a disconnected client got %s", r.body)
				}
			})
		}
		group.Go(func() {
			if r := s.call("GET", path+"60s", "").want(200); r.get("task", "result") != 42.0 {
				t.Errorf("response: %s", r.body)
			}
		})
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == 6 })
		cancel()
		gone.Wait()
		proctest.Eventually(t, "the service to detect the disconnect", func() bool { return s.service.Waiting() == 1 })
		if r := s.call("GET", path+"100ms", "").want(200); r.str("task", "state") != "pending" {
			t.Errorf("response: %s", r.body)
		}
		leases, _ := s.take("w", 1, "50s")
		s.call("POST", "/v1/leases/"+leases[0]+"/done", `{"result":42}`).want(200)
		group.Wait()
		proctest.Eventually(t, "the wait for reports to end", func() bool { _, _, blocking := m.values(); return blocking == 0 })
		_, before, _ := m.values()
		s.call("GET", path+"1s", "").want(200)
		if _, after, blocking := m.values(); after != before || blocking != 0 {
			t.Error("a request for a task that has ended waits")
		}
	})
}
