package node

import (
	"context"
	"errors"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/test/chaos/history"
)

const (
	producers  = 16 // goroutines
	batchEvery = 10 // one in so many calls is a batch
	batchSize  = 20
)

// producer enqueues tasks and records the results.
type producer struct {
	*Producer
	conn    *conn
	client  client
	process string
	history *history.Writer
}

// produce enqueues all tasks, or as many as possible until the process is terminated.
func produce(lib library, c *conn, p *Producer, process string, h *history.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := &producer{Producer: p, conn: c, client: lib.client(c), process: process, history: h}
	calls := make(chan []int)
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for numbers := range calls {
				o.call(numbers)
			}
		})
	}
	o.pace(ctx, calls)
	close(calls)
	all.Wait()
	return nil
}

// pace returns the numbers of the next tasks at the given rate: one, or a batch.
func (p *producer) pace(ctx context.Context, calls chan<- []int) {
	start := time.Now()
	for n, call := p.First, 0; n <= p.Last; call++ {
		numbers := []int{n}
		if call%batchEvery == 0 {
			for len(numbers) < batchSize && n+len(numbers) <= p.Last {
				numbers = append(numbers, n+len(numbers))
			}
		}
		due := start.Add(time.Duration(float64(n-p.First) / p.Rate * float64(time.Second)))
		if pause(ctx, max(time.Until(due), 0)) != nil || ctx.Err() != nil {
			return
		}
		calls <- numbers
		n += len(numbers)
	}
}

func (p *producer) call(numbers []int) {
	tasks := make([]*task, len(numbers))
	for i, n := range numbers {
		t, o := p.pick(n, p.process)
		t.payload = o.encode()
		tasks[i] = t
		e := history.Event{
			Kind: history.Offered, Task: t.id, Queue: t.queue, Plan: o.Plan, MaxRetry: t.maxRetry, Retention: t.retention,
			Group: t.group, Delay: t.delay, UniqueTTL: t.unique, Partition: t.partition, Limits: limitsOf(t.queue),
		}
		if t.unique > 0 {
			e.UniqueKey = t.queue + "/" + string(t.payload[:len(t.payload)-len("\n\x00\xff\xfe")])
		}
		p.history.Write(e)
	}
	breaks := p.conn.breaks.Load()
	errs := p.client.enqueue(context.Background(), tasks)
	whole := breaks == p.conn.breaks.Load()
	for i, err := range errs {
		e := history.Event{Kind: history.Accepted, Task: tasks[i].id, Queue: tasks[i].queue}
		if err != nil {
			e.Err = err.Error()
			e.Kind = history.Unknown
			var answer redis.Error
			if p.client.refused(err) || whole && errors.As(err, &answer) {
				e.Kind = history.Refused
			}
		}
		p.history.Write(e)
	}
}
