package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// DefaultRate is the default of Options.Rate, in tasks per second.
const DefaultRate = 25

// Options configures a Demo.
type Options struct {
	// Redis is the Redis of the queues. The demo owns its queues, and deletes excess tasks from
	// them.
	Redis asynq.RedisConnOpt

	// Rate is the average number of tasks enqueued per second. If zero, it is DefaultRate.
	Rate float64

	// Seed determines the mix of tasks: their order, payloads and outcomes, except where these
	// depend on time.
	Seed uint64

	// Remove makes Close cancel the flows, and delete the queues and the records of the schedulers,
	// for a Redis that outlives the demo.
	Remove bool

	// Log logs errors of the demo itself, but not errors of its tasks.
	Log *slog.Logger
}

// Demo is a running demo.
type Demo struct {
	opts       Options
	client     redis.UniversalClient
	owned      bool
	inspector  *asynq.Inspector
	enqueue    *asynq.Client
	servers    []*asynq.Server
	schedulers []*asynq.Scheduler
	entries    []string // their IDs
	stop       context.CancelFunc
	loops      sync.WaitGroup
	once       sync.Once
	err        error // of Close
}

// Start fills the queues, and starts servers, schedulers and a producer, which run until Close.
func Start(ctx context.Context, opts Options) (*Demo, error) {
	if opts.Rate == 0 {
		opts.Rate = DefaultRate
	}
	conn, err := asynq.ConnectRedis(opts.Redis)
	if err != nil {
		return nil, err
	}
	shared := conn.Shared()
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Demo{opts: opts, client: conn.Client, owned: conn.Owned, stop: stop, inspector: asynq.NewInspector(shared), enqueue: asynq.NewClient(shared)}
	shop := newShop(opts.Seed)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"fill the queues", func() error { return d.stock(ctx, shop) }},
		{"start a server", func() error { return d.startServers(shared) }},
		{"start a scheduler", func() error { return d.startSchedulers(shared) }},
	} {
		if err := step.do(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", step.what, err), d.Close())
		}
	}
	d.loops.Go(func() { d.produce(loops, shop) })
	d.loops.Go(func() { d.flowLoop(loops, newShop(opts.Seed+1)) })
	d.loops.Go(func() { d.trimLoop(loops) })
	return d, nil
}

// Inspector returns an inspector of the queues of the demo. It is valid until Close.
func (d *Demo) Inspector() *asynq.Inspector { return d.inspector }

// Close stops the demo within a few seconds. It may be called more than once.
func (d *Demo) Close() error {
	d.once.Do(func() {
		d.stop()
		d.loops.Wait()
		var all sync.WaitGroup
		for _, s := range d.schedulers {
			all.Go(s.Shutdown)
		}
		for _, s := range d.servers {
			all.Go(s.Shutdown)
		}
		all.Wait()
		if d.opts.Remove {
			d.err = d.remove()
		}
		if d.owned {
			d.err = errors.Join(d.err, d.client.Close())
		}
	})
	return d.err
}

// remove deletes the queues and the records of the schedulers.
func (d *Demo) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	failed := d.removeFlows(ctx)
	inspector := d.inspector.WithContext(ctx)
	names, err := inspector.Queues()
	if err != nil {
		return errors.Join(failed, fmt.Errorf("remove the queues: %w", err))
	}
	for _, name := range names {
		if !slices.Contains(queues, name) {
			continue // created by a user
		}
		if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			failed = errors.Join(failed, fmt.Errorf("remove queue %q: %w", name, err))
		}
	}
	if err := errors.Join(d.inspector.DeleteSchedulerGroup(ctx, schedulerGroup), d.inspector.DeleteSchedulerHistory(ctx, d.entries...)); err != nil {
		failed = errors.Join(failed, fmt.Errorf("remove the records of the schedulers: %w", err))
	}
	return failed
}
