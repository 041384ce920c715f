package service_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
)

// partitionWorkers are workers that take tasks until all are done, and check the limits of
// partitions.
type partitionWorkers struct {
	most int // active tasks of a partition
	left int // tasks that are not done

	mu      sync.Mutex
	active  map[string]int
	order   map[string][]string // IDs by partition, as they started
	crowded []string
	over    context.CancelFunc
}

// run takes and settles tasks until ctx is done.
func (p *partitionWorkers) run(ctx context.Context, s *env, queue string) error {
	for {
		r, err := s.try(ctx, all, "POST", "/v1/take", fmt.Sprintf(`{"queues":[%q],"n":4,"wait":"50s"}`, queue))
		if ctx.Err() != nil {
			return nil
		}
		if err := succeeded(r, err); err != nil {
			return err
		}
		tasks := r.list("tasks")
		for i := range tasks {
			p.start(r.str("tasks", i, "partition_key"), r.str("tasks", i, "id"))
		}
		for i := range tasks {
			p.end(r.str("tasks", i, "partition_key")) // before the outcome, which admits the next task
			done, err := s.try(context.WithoutCancel(ctx), all, "POST", "/v1/leases/"+r.str("tasks", i, "lease")+"/done", "")
			if err := succeeded(done, err); err != nil {
				return err
			}
			p.done()
		}
	}
}

// succeeded returns an error unless a request had the status 200.
func succeeded(r *reply, err error) error {
	if err == nil && r.status != 200 {
		err = fmt.Errorf("status %d: %s", r.status, r.body)
	}
	return err
}

func (p *partitionWorkers) start(key, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order[key] = append(p.order[key], id)
	if p.active[key]++; p.active[key] > p.most {
		p.crowded = append(p.crowded, id)
	}
}

func (p *partitionWorkers) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active[key]--
}

func (p *partitionWorkers) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left == 0 {
		p.over()
	}
}

// The limit and the order of partitions hold for workers of several instances.
func TestPartitionsOfTwoWorkers(t *testing.T) {
	for queue, limits := range map[string]asynq.PartitionConfig{"capped": {Concurrency: 1}, "ordered": {Ordered: true}, "by type": {ByType: true, Concurrency: 1}} {
		t.Run(queue, func(t *testing.T) {
			onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
				set := func(c *service.Config) { c.Queues = map[string]service.QueueConfig{queue: {Partitions: &limits}} }
				first, second := newEnv(t, opt, set), newEnv(t, opt, set)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p := &partitionWorkers{most: 1, active: make(map[string]int), order: make(map[string][]string), over: cancel}
				want := make(map[string][]string)
				for n := range 20 {
					for _, key := range []string{"a", "b", "c"} {
						id := fmt.Sprint(key, n)
						first.call("POST", "/v1/tasks", fmt.Sprintf(`{"type":%q,"queue":%q,"id":%q,"partition_key":%q}`, key, queue, id, key)).want(201)
						want[key] = append(want[key], id)
						p.left++
					}
				}
				failed := make(chan error, 4)
				for _, s := range []*env{first, second, first, second} {
					go func() { failed <- p.run(ctx, s, queue) }()
				}
				for range cap(failed) {
					if err := <-failed; err != nil {
						cancel()
						t.Error(err)
					}
				}
				if len(p.crowded) > 0 {
					t.Errorf("%v started while another task of their partition was active", p.crowded)
				}
				for key, ids := range want {
					if !slices.Equal(p.order[key], ids) {
						t.Errorf("partition %s: %v started, want %v", key, p.order[key], ids)
					}
				}
			})
		})
	}
}

// A reload sets and removes the partitions of a queue.
func TestReloadPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := newEnv(t, opt, nil)
		reload := func(p *asynq.PartitionConfig) {
			t.Helper()
			err := s.service.Reload(service.Config{Tokens: tokens(), Queues: map[string]service.QueueConfig{"q": {Partitions: p}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		reload(&asynq.PartitionConfig{Concurrency: 1})
		s.enqueue("q", 3, `,"partition_key":"k"`)
		if _, ids := s.take("q", 10, "50s"); !slices.Equal(ids, []string{"1"}) {
			t.Fatalf("took %v with a limit of 1", ids)
		}
		reload(&asynq.PartitionConfig{Concurrency: 2})
		if _, ids := s.take("q", 10, "50s"); !slices.Equal(ids, []string{"2"}) {
			t.Fatalf("took %v with a limit of 2", ids)
		}
		reload(nil)
		if r := s.call("GET", "/v1/queues/q", "").want(200); r.get("queue", "partitions") != nil {
			t.Errorf("the queue still has partitions: %s", r.body)
		}
		s.call("POST", "/v1/tasks", `{"type":"t","queue":"q","id":"4","partition_key":"k"}`).want(201)
		if _, ids := s.take("q", 10, "50s"); !slices.Equal(ids, []string{"4"}) {
			t.Errorf("took %v without partitions", ids)
		}
	})
}
