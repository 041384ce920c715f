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

// DefaultRate is how many tasks a second are enqueued on average unless Options say so.
const DefaultRate = 25

// Options of a Demo.
type Options struct {
	// Redis is where the queues are. All of them belong to the demo: it deletes what gets too much.
	Redis asynq.RedisConnOpt

	// Rate is how many tasks a second are enqueued on average. Zero: DefaultRate.
	Rate float64

	// Seed of the mix: the same tasks come in the same order, and fare the same, wherever time does not decide.
	Seed uint64

	// Remove has Close delete the queues, and what is kept of the schedulers, for a Redis that goes on.
	Remove bool

	// Log is told what goes wrong with the demo itself. The errors of its tasks are not.
	Log *slog.Logger
}

// Demo is a shop at work.
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

// Start fills the queues for a first look, and sets all to work until Close.
func Start(ctx context.Context, opts Options) (*Demo, error) {
	if opts.Rate == 0 {
		opts.Rate = DefaultRate
	}
	client, namespace, owned, err := asynq.ConnectRedis(opts.Redis)
	if err != nil {
		return nil, err
	}
	shared := asynq.WithNamespace(asynq.SharedRedisClient(client), namespace)
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Demo{opts: opts, client: client, owned: owned, stop: stop, inspector: asynq.NewInspector(shared), enqueue: asynq.NewClient(shared)}
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
	d.loops.Go(func() { d.keep(loops) })
	return d, nil
}

// Inspector looks at the queues of the demo, until Close.
func (d *Demo) Inspector() *asynq.Inspector { return d.inspector }

// Close ends all of it, within a few seconds. It may be called more than once.
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

// remove deletes the queues, and what is kept of the schedulers in case that they come again.
func (d *Demo) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	inspector := d.inspector.WithContext(ctx)
	names, err := inspector.Queues()
	if err != nil {
		return fmt.Errorf("remove the queues: %w", err)
	}
	var failed error
	for _, name := range names {
		if !slices.Contains(queues, name) {
			continue // of somebody who tries something
		}
		if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			failed = errors.Join(failed, fmt.Errorf("remove queue %q: %w", name, err))
		}
	}
	if err := d.inspector.ForgetSchedulers(ctx, schedulerGroup, d.entries...); err != nil {
		failed = errors.Join(failed, fmt.Errorf("remove what is kept of the schedulers: %w", err))
	}
	return failed
}
