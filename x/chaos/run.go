package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/x/chaos/checker"
	"github.com/asynq-go/asynq/x/chaos/fault"
	"github.com/asynq-go/asynq/x/chaos/history"
	"github.com/asynq-go/asynq/x/chaos/node"
	"github.com/asynq-go/asynq/x/chaos/site"
)

// options are those of one run.
type options struct {
	Site        string        `json:"site"`
	Library     string        `json:"library"`
	Tasks       int           `json:"tasks"`
	Length      time.Duration `json:"length"`
	Every       time.Duration `json:"every"`
	Seed        uint64        `json:"seed"`
	Lease       time.Duration `json:"lease"`
	Fsync       site.Fsync    `json:"fsync"`
	MinReplicas int           `json:"min_replicas"`
	Only        []fault.Kind  `json:"only,omitempty"`
	Except      []fault.Kind  `json:"except,omitempty"`
	Poison      bool          `json:"poison"` // some tasks panic, hang, call Goexit, or end their process

	Dir     string `json:"dir"`    // of this run: its history, the logs, the files of the servers
	Program string `json:"-"`      // what nodes are made of
	Skewed  string `json:"skewed"` // the same with a clock that can be set wrong; "": no clock is wrong
}

// What a run has.
const (
	queuesPerShard = 2
	workers        = 4
	concurrency    = 60
	theirLease     = 30 * time.Second
	slack          = 2 * time.Second
	skewBy         = 40 * time.Second // of one worker; longer than the reference's lease
	// patience is how long nothing may happen before what is left is taken for stuck. The tasks that a dead server had staged to be
	// aggregated are another's after two minutes.
	patience = 150 * time.Second
)

// lossless says whether the guarantees hold without an exception: what Redis has answered it keeps.
func (o *options) lossless() bool { return o.Site == node.Standalone && o.Fsync == site.Always }

// rules are what the run is judged by.
func (o *options) rules() checker.Rules {
	return checker.Rules{
		Lease: o.Lease, Extend: o.Lease / 6, Slack: slack, MayLose: !o.lossless(), CrashCounts: true,
	}
}

// run runs workers, producers and faults, waits for the end of all tasks, and judges what was seen.
func run(ctx context.Context, o *options, out io.Writer) (*outcome, error) {
	s, err := site.Start(ctx, site.Options{
		Kind: site.Kind(o.Site), Dir: filepath.Join(o.Dir, "redis"), Fsync: o.Fsync, MinReplicas: o.MinReplicas,
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	log, err := history.Create(o.Dir, "harness", 0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := perform(ctx, o, s, log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s on %s: over after %v, reading the history\n", o.Library, o.Site, time.Since(began).Round(time.Second))
	events, err := history.Read(o.Dir)
	if err != nil {
		return nil, err
	}
	return judge(o, events), nil
}

// perform is a run from the first process to the last.
func perform(ctx context.Context, o *options, s *site.Site, log *history.Writer) (err error) {
	shares, err := share(ctx, s)
	if err != nil {
		return err
	}
	var all []*member
	defer func() { err = errors.Join(err, dismissAll(all)) }()
	b := &breaker{site: s, log: log, rest: o.Every / 2}
	served := map[string]int{brokenQueue: 1}
	for _, queues := range shares {
		for _, queue := range queues {
			served[queue] = 1
			b.queues = append(b.queues, queue)
		}
	}
	for i := range workers {
		order := o.order(s, fmt.Sprint("worker", i+1))
		order.Worker = &node.Worker{Concurrency: concurrency, Queues: served, Lease: o.Lease}
		program := o.Program
		if i == 0 && o.Skewed != "" {
			program, order.Skew = o.Skewed, skewBy
		}
		m, err := hire(program, o.Dir, order, log)
		if err != nil {
			return err
		}
		all, b.workers = append(all, m), append(b.workers, m)
	}
	each := o.Tasks / len(shares)
	for i, queues := range shares {
		order := o.order(s, fmt.Sprint("producer", i+1))
		order.Producer = &node.Producer{
			First: i*each + 1, Last: (i + 1) * each, Rate: float64(each) / o.Length.Seconds(), Seed: o.Seed, Queues: queues, Poison: o.Poison,
		}
		m, err := hire(o.Program, o.Dir, order, log)
		if err != nil {
			return err
		}
		all, b.producers = append(all, m), append(b.producers, m)
	}
	if err := o.trouble(ctx, b); err != nil {
		return err
	}
	for _, p := range b.producers {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e := &ending{inspector: asynq.NewInspectorFromRedisClient(s.Client()), queues: b.queues, log: log}
	if err := e.settle(ctx, patience); err != nil {
		return err
	}
	if err := b.mend(ctx); err != nil {
		return err
	}
	gone := all
	all = nil
	if err := dismissAll(gone); err != nil {
		return err
	}
	return e.record(ctx)
}

// trouble has all planned faults happen, and all be well again.
func (o *options) trouble(ctx context.Context, b *breaker) error {
	processes, redis := fault.Plan(fault.Options{
		Seed: o.Seed, Site: o.Site, Length: o.Length, Every: o.Every, Lease: o.Lease, Only: o.Only, Except: o.Except,
	})
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	var lanes sync.WaitGroup
	errs := make([]error, 2)
	for i, faults := range [][]fault.Fault{processes, redis} {
		lanes.Go(func() { errs[i] = b.carryOut(within, start, faults) })
	}
	lanes.Wait()
	return errors.Join(append(errs, b.site.Revive(ctx))...)
}

func (o *options) order(s *site.Site, name string) *node.Order {
	return &node.Order{Process: name, Library: o.Library, Redis: target(s)}
}

// share returns the names of the queues of each shard: a producer of its own enqueues to them, and only that stands still when
// the shard is gone.
func share(ctx context.Context, s *site.Site) ([][]string, error) {
	shards := s.Shards()
	shares := make([][]string, len(shards))
	for i, missing := 0, len(shards)*queuesPerShard; missing > 0; i++ {
		queue := fmt.Sprint("queue", i)
		on, err := s.ShardOf(ctx, queueKey(queue, "pending"))
		if err != nil {
			return nil, err
		}
		for j, sh := range shards {
			if sh == on && len(shares[j]) < queuesPerShard {
				shares[j] = append(shares[j], queue)
				missing--
			}
		}
	}
	return shares, nil
}

// ownProgram is this program, to be run as a node.
func ownProgram() (string, error) { return os.Executable() }
