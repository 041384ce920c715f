package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/test/chaos/fault"
	"github.com/asynq-go/asynq/test/chaos/history"
	"github.com/asynq-go/asynq/test/chaos/node"
	"github.com/asynq-go/asynq/test/chaos/site"
)

// injector carries out the faults of a plan and records them.
type injector struct {
	site      *site.Site
	workers   []*member
	producers []*member
	queues    []string
	gap       time.Duration // minimum time between faults of a lane
	log       *history.Writer
	planted   int
}

// runLane carries out the faults of one lane, in order.
func (b *injector) runLane(ctx context.Context, start time.Time, faults []fault.Fault) error {
	var over time.Time
	for _, f := range faults {
		if pause(ctx, max(time.Until(start.Add(f.At)), time.Until(over.Add(b.gap)))) != nil {
			return nil // the run has ended
		}
		e, err := b.inject(ctx, &f)
		if ctx.Err() != nil && err != nil {
			return nil
		}
		if errors.Is(err, site.ErrUnsupported) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s at %v: %w", f.Kind, f.At, err)
		}
		e.Kind, e.Name = history.Fault, string(f.Kind)
		b.log.Write(e)
		over = time.Now()
	}
	return nil
}

// inject carries out one fault and returns when the site has recovered.
func (b *injector) inject(ctx context.Context, f *fault.Fault) (history.Event, error) {
	if kind := string(f.Kind); strings.HasPrefix(kind, "worker") || strings.HasPrefix(kind, "producer") || strings.HasPrefix(kind, "network") {
		return b.toProcess(ctx, f), nil
	}
	if f.Kind == fault.Malformed {
		return b.plant(ctx, f)
	}
	incident, err := b.toRedis(ctx, f)
	if err != nil {
		return history.Event{}, err
	}
	e := history.Event{At: incident.Began.UnixNano(), Until: incident.Over.UnixNano(), Loses: incident.Loses()}
	if f.Kind != fault.Full { // existing tasks are still processed
		e.Targets = []string{"*"}
	}
	if incident.LostUntil.After(incident.Over) {
		e.Until = incident.LostUntil.UnixNano()
	}
	return e, nil
}

func (b *injector) toProcess(ctx context.Context, f *fault.Fault) history.Event {
	members := b.workers
	switch f.Kind {
	case fault.ProducerKill, fault.ProducerFreeze, fault.ProducerRestart:
		members = b.producers
	case fault.NetCut, fault.NetHalf, fault.NetDelay, fault.NetBlackhole:
		members = slices.Concat(b.workers, b.producers)
	}
	m := members[f.Pick%uint64(len(members))]
	e := history.Event{At: time.Now().UnixNano()}
	name := ""
	switch f.Kind {
	case fault.WorkerKill, fault.ProducerKill:
		if name = m.signal(syscall.SIGKILL); name != "" {
			m.waitGone()
		}
	case fault.WorkerRestart, fault.ProducerRestart:
		if name = m.signal(syscall.SIGTERM); name != "" {
			m.waitGone()
		}
	case fault.WorkerFreeze, fault.ProducerFreeze:
		name = m.signal(syscall.SIGSTOP)
		_ = pause(ctx, f.For) // resume in any case
		m.signal(syscall.SIGCONT)
	default:
		name = m.signal(0)
		b.toNetwork(ctx, m, f)
	}
	if name != "" {
		e.Targets = []string{name}
	}
	e.Until = time.Now().UnixNano()
	return e
}

func (b *injector) toNetwork(ctx context.Context, m *member, f *fault.Fault) {
	const delay = 100 * time.Millisecond
	switch f.Kind {
	case fault.NetCut:
		m.proxy.Cut()
	case fault.NetHalf:
		m.proxy.Halve()
		_ = pause(ctx, delay) // messages in this time are halved
	case fault.NetDelay:
		m.proxy.Delay(delay)
		_ = pause(ctx, f.For)
		m.proxy.Delay(0)
	case fault.NetBlackhole:
		m.proxy.Blackhole()
		_ = pause(ctx, f.For)
		m.proxy.Resume()
	}
}

func (b *injector) toRedis(ctx context.Context, f *fault.Fault) (*site.Incident, error) {
	shards := b.site.Shards()
	shard := shards[f.Pick%uint64(len(shards))]
	primary := func() *site.Node {
		n, err := shard.Primary(ctx)
		if err != nil {
			return shard.Nodes()[0]
		}
		return n
	}
	switch f.Kind {
	case fault.RedisRestart:
		return b.site.Restart(ctx, primary(), f.For)
	case fault.PowerLoss:
		return b.site.PowerLoss(ctx, primary(), f.For)
	case fault.ScriptFlush:
		return b.site.ScriptFlush(ctx)
	case fault.ClientKill:
		return b.site.KillClients(ctx)
	case fault.Slow:
		return b.site.Slow(ctx, f.For)
	case fault.Full:
		return b.site.Full(ctx, f.For)
	case fault.DiskFull:
		return b.site.DiskFull(ctx, primary(), f.For)
	case fault.FailoverCrash:
		return b.site.Failover(ctx, shard, site.Crash)
	case fault.FailoverFreeze:
		return b.site.Failover(ctx, shard, site.Freeze)
	case fault.FailoverOrder:
		return b.site.Failover(ctx, shard, site.Order)
	case fault.DeadShard:
		return b.site.DeadShard(ctx, shard, f.For)
	case fault.Reshard:
		queue := b.queues[f.Pick%uint64(len(b.queues))]
		key := queueKey(queue, "pending")
		from, err := b.site.ShardOf(ctx, key)
		if err != nil {
			return nil, err
		}
		others := slices.DeleteFunc(slices.Clone(shards), func(sh *site.Shard) bool { return sh == from })
		return b.site.Reshard(ctx, site.Slot(key), others[f.Pick%uint64(len(others))])
	default:
		return nil, fmt.Errorf("unknown fault %q", f.Kind)
	}
}

// queueKey returns a key of a queue according to docs/WIRE.md.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// target returns the address of the site for nodes.
func target(s *site.Site) node.Target {
	a := s.Address()
	return node.Target{Kind: string(a.Kind), Addrs: a.Addrs, Master: a.Master}
}
