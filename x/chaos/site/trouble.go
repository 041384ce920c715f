package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// watch remembers who the primaries were before something that may cost them their place.
type watch struct {
	primaries map[*Shard]*Node
	covered   time.Time // what was answered before is on all replicas
}

// watch looks at the shards that have a primary, or at only one of them.
func (s *Site) watch(ctx context.Context, only *Shard) (*watch, error) {
	w := &watch{primaries: make(map[*Shard]*Node)}
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

// over waits until the shards are in order again, and ends the incident. If a primary has lost its place, writes may be gone.
func (w *watch) over(ctx context.Context, i *Incident) error {
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

// onEach does something to several nodes at the same time.
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

// alive are the nodes with data that are up.
func (s *Site) alive() []*Node {
	var list []*Node
	for _, n := range s.nodes {
		if n.Alive() {
			list = append(list, n)
		}
	}
	return list
}

// ScriptFlush has all nodes forget the scripts that they know, as a restart does.
func (s *Site) ScriptFlush(ctx context.Context) (*Incident, error) {
	nodes := s.alive()
	i := begin("script flush", nodes...)
	err := onEach(nodes, func(n *Node) error { return n.client.ScriptFlush(ctx).Err() })
	i.Over = time.Now()
	return i, err
}

// KillClients closes the connections of all clients, those that subscribe to channels included, and those of the harness too but for
// the one that asks for it. Links between servers stay. Effect says how many there were.
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

// Slow has nodes do nothing for d, each primary if none are named: they answer nobody, not even other nodes. If that lasts longer than
// those wait, 1.5 s, replicas take over; then writes may be lost as in a failover by freeze. In a Cluster that needs the votes
// of the other primaries: when all of them are slow, nobody takes over.
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
		return n.client.WithTimeout(d+patience).Do(ctx, "debug", "sleep", d.Seconds()).Err()
	})
	if err != nil {
		return i, err
	}
	return i, w.over(ctx, i)
}

// Full has each primary refuse commands that need memory (OOM) for d: its limit is set to just below what it uses. Commands that
// free memory may make room for some others in the meantime.
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
	// A site that refuses everything is not left behind.
	err = errors.Join(err, onEach(nodes, func(n *Node) error {
		if n.PID() == 0 {
			return nil // it comes back without the limit
		}
		ctx := context.WithoutCancel(ctx)
		return until(ctx, "the limit to be lifted", func(ctx context.Context) error {
			return n.client.ConfigSet(ctx, "maxmemory", "0").Err()
		})
	}))
	if err != nil {
		return i, err
	}
	return i, w.over(ctx, i)
}

func (w *watch) nodes() []*Node {
	var list []*Node
	for _, n := range w.primaries {
		list = append(list, n)
	}
	return list
}
