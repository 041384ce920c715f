package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// primaryWatch records the primaries before a fault that may cause a failover.
type primaryWatch struct {
	primaries map[*Shard]*Node
	covered   time.Time // writes acknowledged before are on all replicas
}

// watch returns the current primaries: of all shards, or of only if it is not nil.
func (s *Site) watch(ctx context.Context, only *Shard) (*primaryWatch, error) {
	w := &primaryWatch{primaries: make(map[*Shard]*Node)}
	for _, sh := range s.shards {
		if only != nil && sh != only {
			continue
		}
		n, err := sh.Primary(ctx)
		if err != nil {
			continue
		}
		covered, err := sh.replicated(ctx, n)
		if err != nil {
			return nil, err
		}
		if w.primaries[sh] = n; w.covered.IsZero() {
			w.covered = covered
		}
	}
	if len(w.primaries) == 0 {
		return nil, errors.New("site: no shard has a primary")
	}
	return w, nil
}

// finish waits until the shards are healthy and ends the incident. If a primary was replaced,
// writes may be lost.
func (w *primaryWatch) finish(ctx context.Context, i *Incident) error {
	for sh, was := range w.primaries {
		now, err := sh.settled(ctx)
		if err != nil {
			return err
		}
		if now != was {
			i.lost(w.covered, time.Now())
		}
		if len(w.primaries) == 1 {
			i.Primary = now.name
		}
	}
	i.Over = time.Now()
	return nil
}

// onEach calls do for several nodes concurrently.
func onEach(nodes []*Node, do func(*Node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			if err := do(n); err != nil {
				errs[i] = fmt.Errorf("%s: %w", n, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// alive returns the running nodes with data.
func (s *Site) alive() []*Node {
	var list []*Node
	for _, n := range s.nodes {
		if n.Alive() {
			list = append(list, n)
		}
	}
	return list
}

// ScriptFlush makes all nodes forget their scripts, as after a restart.
func (s *Site) ScriptFlush(ctx context.Context) (*Incident, error) {
	nodes := s.alive()
	i := begin("script flush", nodes...)
	err := onEach(nodes, func(n *Node) error { return n.client.ScriptFlush(ctx).Err() })
	i.Over = time.Now()
	return i, err
}

// KillClients closes the connections of all clients, including subscribers and the harness, except
// the calling one. Links between servers stay. Effect reports their number.
func (s *Site) KillClients(ctx context.Context) (*Incident, error) {
	nodes := s.alive()
	i := begin("kill clients", nodes...)
	var mu sync.Mutex
	var killed int64
	err := onEach(nodes, func(n *Node) error {
		for _, kind := range []string{"normal", "pubsub"} {
			k, err := n.client.ClientKillByFilter(ctx, "type", kind, "skipme", "yes").Result()
			if err != nil {
				return err
			}
			mu.Lock()
			killed += k
			mu.Unlock()
		}
		return nil
	})
	i.Over, i.Effect = time.Now(), strconv.FormatInt(killed, 10)+" connections"
	return i, err
}

// Slow blocks nodes for d, by default each primary: they respond to no one, not even to other
// nodes. If that exceeds 1.5 s, replicas take over; then writes may be lost as in a failover by
// freeze. In a Cluster, that needs the votes of other primaries: if all are slow, no replica takes
// over.
func (s *Site) Slow(ctx context.Context, d time.Duration, nodes ...*Node) (*Incident, error) {
	i := begin("slow")
	w, err := s.watch(ctx, nil)
	if err != nil {
		return i, err
	}
	if len(nodes) == 0 {
		nodes = w.nodes()
	}
	i.name(nodes)
	i.Began = time.Now()
	err = onEach(nodes, func(n *Node) error {
		return n.client.WithTimeout(d+timeout).Do(ctx, "debug", "sleep", d.Seconds()).Err()
	})
	if err != nil {
		return i, err
	}
	return i, w.finish(ctx, i)
}

// Full makes each primary reject commands that need memory (OOM) for d, with a limit just below its
// usage. Commands that free memory may make space for others.
func (s *Site) Full(ctx context.Context, d time.Duration) (*Incident, error) {
	i := begin("full memory")
	w, err := s.watch(ctx, nil)
	if err != nil {
		return i, err
	}
	nodes := w.nodes()
	i.name(nodes)
	i.Began = time.Now()
	err = onEach(nodes, func(n *Node) error {
		info, err := n.info(ctx, "memory")
		if err != nil {
			return err
		}
		limit := info.number("used_memory") - info.number("mem_not_counted_for_evict") - 1
		return n.client.ConfigSet(ctx, "maxmemory", strconv.FormatInt(limit, 10)).Err()
	})
	if err == nil {
		err = pause(ctx, d)
	}
	// Always remove the limit.
	err = errors.Join(err, onEach(nodes, func(n *Node) error {
		if n.PID() == 0 {
			return nil // restarts without the limit
		}
		ctx := context.WithoutCancel(ctx)
		return until(ctx, "the limit to be lifted", func(ctx context.Context) error {
			return n.client.ConfigSet(ctx, "maxmemory", "0").Err()
		})
	}))
	if err != nil {
		return i, err
	}
	return i, w.finish(ctx, i)
}

func (w *primaryWatch) nodes() []*Node {
	var list []*Node
	for _, n := range w.primaries {
		list = append(list, n)
	}
	return list
}
