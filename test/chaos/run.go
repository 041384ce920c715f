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

	"github.com/asynq-go/asynq/test/chaos/checker"
	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/history"
	"github.com/asynq-go/asynq/test/chaos/node"
	"github.com/asynq-go/asynq/test/chaos/site"
)

// options are the options of one run.
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

	Dir     string `json:"dir"`    // history, logs and server files of the run
	Program string `json:"-"`      // program of the nodes
	Skewed  string `json:"skewed"` // the program with an adjustable clock; "" if no clock is skewed
}

// Parameters of a run.
const (
	queuesPerShard = 2
	workers        = 4
	concurrency    = 60
	theirLease     = 30 * time.Second
	slack          = 2 * time.Second
	skewBy         = 40 * time.Second // clock skew of one worker, longer than the lease of the reference
	// stuckAfter is how long nothing may happen before the remaining tasks count as stuck. Staged
	// tasks of a dead server return to their group after two minutes.
	stuckAfter = 150 * time.Second
)

// lossless reports whether Redis keeps all acknowledged writes.
func (o *options) lossless() bool { return o.Site == node.Standalone && o.Fsync == site.Always }

// rules returns the rules for the checker.
func (o *options) rules() checker.Rules {
	return checker.Rules{
		Lease: o.Lease, Extend: o.Lease / 6, Slack: slack, MayLose: !o.lossless(), CrashCounts: true,
	}
}

// run runs workers, producers and faults, waits until all tasks have ended, and checks the history.
func run(ctx context.Context, o *options, out io.Writer) (*result, error) {
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
	start := time.Now()
	if err := perform(ctx, o, s, log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s on %s: finished after %v, reading the history\n", o.Library, o.Site, time.Since(start).Round(time.Second))
	events, err := history.Read(o.Dir)
	if err != nil {
		return nil, err
	}
	return evaluate(o, events), nil
}

// perform runs all processes of a run.
func perform(ctx context.Context, o *options, s *site.Site, log *history.Writer) (err error) {
	shares, err := queuesByShard(ctx, s, "queue", queuesPerShard)
	if err != nil {
		return err
	}
	if o.Library == node.Ours { // the reference has no partitions
		for _, name := range []string{node.LimitedQueue, node.CappedQueue, node.OrderedQueue} {
			more, err := queuesByShard(ctx, s, name, 1)
			if err != nil {
				return err
			}
			for i := range shares {
				shares[i] = append(shares[i], more[i]...)
			}
		}
	}
	var all []*member
	defer func() { err = errors.Join(err, stopAll(all)) }()
	b := &injector{site: s, log: log, gap: o.Every / 2}
	served := map[string]int{brokenQueue: 1}
	for _, queues := range shares {
		for _, queue := range queues {
			served[queue] = 1
			b.queues = append(b.queues, queue)
		}
	}
	for i := range workers {
		order := o.nodeConfig(s, fmt.Sprint("worker", i+1))
		order.Worker = &node.Worker{Concurrency: concurrency, Queues: served, Lease: o.Lease}
		program := o.Program
		if i == 0 && o.Skewed != "" {
			program, order.Skew = o.Skewed, skewBy
		}
		m, err := startMember(program, o.Dir, order, log)
		if err != nil {
			return err
		}
		all, b.workers = append(all, m), append(b.workers, m)
	}
	each := o.Tasks / len(shares)
	for i, queues := range shares {
		order := o.nodeConfig(s, fmt.Sprint("producer", i+1))
		order.Producer = &node.Producer{
			First: i*each + 1, Last: (i + 1) * each, Rate: float64(each) / o.Length.Seconds(), Seed: o.Seed, Queues: queues, Poison: o.Poison,
		}
		m, err := startMember(o.Program, o.Dir, order, log)
		if err != nil {
			return err
		}
		all, b.producers = append(all, m), append(b.producers, m)
	}
	if err := o.injectFaults(ctx, b); err != nil {
		return err
	}
	for _, p := range b.producers {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	conn := asynq.SharedRedisClient(s.Client())
	e := &finisher{redis: conn, inspector: asynq.NewInspector(conn), queues: b.queues, log: log}
	if err := e.waitIdle(ctx, stuckAfter); err != nil {
		return err
	}
	if err := b.repair(ctx); err != nil {
		return err
	}
	gone := all
	all = nil
	if err := stopAll(gone); err != nil {
		return err
	}
	return e.record(ctx)
}

// injectFaults carries out the planned faults and waits until the site has recovered.
func (o *options) injectFaults(ctx context.Context, b *injector) error {
	processes, redis := fault.Plan(fault.Options{
		Seed: o.Seed, Site: o.Site, Length: o.Length, Every: o.Every, Lease: o.Lease, Only: o.Only, Except: o.Except,
	})
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	var lanes sync.WaitGroup
	errs := make([]error, 2)
	for i, faults := range [][]fault.Fault{processes, redis} {
		lanes.Go(func() { errs[i] = b.runLane(within, start, faults) })
	}
	lanes.Wait()
	return errors.Join(append(errs, b.site.Revive(ctx))...)
}

func (o *options) nodeConfig(s *site.Site, name string) *node.Config {
	return &node.Config{Process: name, Library: o.Library, Redis: target(s)}
}

// queuesByShard returns n queues of each shard, with a name and a number. Each shard has its own
// producer, so that only that one stops when the shard is down.
func queuesByShard(ctx context.Context, s *site.Site, name string, n int) ([][]string, error) {
	shards := s.Shards()
	shares := make([][]string, len(shards))
	for i, missing := 0, len(shards)*n; missing > 0; i++ {
		queue := fmt.Sprint(name, i)
		on, err := s.ShardOf(ctx, queueKey(queue, "pending"))
		if err != nil {
			return nil, err
		}
		for j, sh := range shards {
			if sh == on && len(shares[j]) < n {
				shares[j] = append(shares[j], queue)
				missing--
			}
		}
	}
	return shares, nil
}

// ownProgram returns the path of this program.
func ownProgram() (string, error) { return os.Executable() }
