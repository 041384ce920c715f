package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Shard is a primary and its replicas. The nodes of a shard are fixed; the primary may change.
type Shard struct {
	site  *Site
	name  string
	nodes []*Node

	mu      sync.Mutex
	primary *Node     // when the shard was last healthy
	changed time.Time // when the primary last changed
}

// Name returns "shard1" and so on.
func (sh *Shard) Name() string { return sh.name }

// Nodes returns all nodes of the shard, running or not.
func (sh *Shard) Nodes() []*Node { return sh.nodes }

// Shards returns the shards of the site: three for a Cluster, otherwise one.
func (s *Site) Shards() []*Shard { return s.shards }

// shardOf returns the shard of a node; nil for a Sentinel.
func (s *Site) shardOf(n *Node) *Shard {
	for _, sh := range s.shards {
		if slices.Contains(sh.nodes, n) {
			return sh
		}
	}
	return nil
}

// Primary returns the primary of the shard, if all running nodes, or all running Sentinels, agree
// on it, none considers it failing, and it reports this role itself.
func (sh *Shard) Primary(ctx context.Context) (*Node, error) {
	var n *Node
	var err error
	switch sh.site.opts.Kind {
	case Sentinel:
		n, err = sh.site.namedBySentinels(ctx)
	case Cluster:
		n, err = sh.namedByCluster(ctx)
	default:
		n = sh.nodes[0]
	}
	if err != nil {
		return nil, fmt.Errorf("primary of %s: %w", sh.name, err)
	}
	role, err := n.Role(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("primary of %s: %w", sh.name, err)
	case role != Primary:
		return nil, fmt.Errorf("primary of %s: %s is named, but reports the role %s", sh.name, n, role)
	}
	return n, nil
}

// Replicas returns the running nodes of the shard that report the role of a replica.
func (sh *Shard) Replicas(ctx context.Context) ([]*Node, error) {
	var list []*Node
	for _, n := range sh.nodes {
		if !n.Alive() {
			continue
		}
		role, err := n.Role(ctx)
		if err != nil {
			return nil, err
		}
		if role == Replica {
			list = append(list, n)
		}
	}
	return list, nil
}

// Primaries returns the primaries of all shards that have one.
func (s *Site) Primaries(ctx context.Context) ([]*Node, error) {
	var list []*Node
	var errs error
	for _, sh := range s.shards {
		n, err := sh.Primary(ctx)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		list = append(list, n)
	}
	if len(list) == 0 {
		return nil, errs
	}
	return list, nil
}

// NodeOf returns the primary of the shard of a key.
func (s *Site) NodeOf(ctx context.Context, key string) (*Node, error) {
	sh, err := s.ShardOf(ctx, key)
	if err != nil {
		return nil, err
	}
	return sh.Primary(ctx)
}

// ShardOf returns the shard of a key.
func (s *Site) ShardOf(ctx context.Context, key string) (*Shard, error) {
	if s.opts.Kind != Cluster {
		return s.shards[0], nil
	}
	return s.shardOfSlot(ctx, Slot(key))
}

// writable checks that the primary accepts writes by deleting a missing key.
func (sh *Shard) writable(ctx context.Context, primary *Node) error {
	key := "asynq-site-probe"
	if sh.site.opts.Kind == Cluster {
		slot, err := primary.anySlot(ctx)
		if err != nil {
			return err
		}
		key = keyIn(slot)
	}
	return primary.client.Del(ctx, key).Err()
}

// settled waits until the shard is healthy: one primary that all nodes agree on and that accepts
// writes, and all other running nodes are replicas in sync. It returns the primary.
func (sh *Shard) settled(ctx context.Context) (*Node, error) {
	var primary *Node
	err := until(ctx, sh.name+" to be in order", func(ctx context.Context) (err error) {
		if primary, err = sh.Primary(ctx); err != nil {
			return err
		}
		if err := sh.inSync(ctx, primary); err != nil {
			return err
		}
		return sh.writable(ctx, primary)
	})
	if err != nil {
		return nil, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.primary != nil && sh.primary != primary {
		sh.changed = time.Now()
	}
	sh.primary = primary
	return primary, nil
}

// electionExpired waits until the last election in a Cluster shard is so old that nodes accept a
// new one.
func (sh *Shard) electionExpired(ctx context.Context) error {
	sh.mu.Lock()
	changed := sh.changed
	sh.mu.Unlock()
	if sh.site.opts.Kind != Cluster || changed.IsZero() {
		return nil
	}
	return pause(ctx, time.Until(changed.Add(electionTTL)))
}

// inSync checks that all other running nodes of the shard have the data that the primary had at the
// start of the check.
func (sh *Shard) inSync(ctx context.Context, primary *Node) error {
	info, err := primary.info(ctx, "replication")
	if err != nil {
		return err
	}
	offset := info.number("master_repl_offset")
	for _, n := range sh.nodes {
		if n == primary || !n.Alive() {
			continue
		}
		info, err := n.info(ctx, "replication")
		switch {
		case err != nil:
			return err
		case info["role"] != "slave" || info["master_port"] != strconv.Itoa(primary.port):
			return fmt.Errorf("%s is not a replica of %s", n, primary)
		case info["master_link_status"] != "up" || info["master_sync_in_progress"] != "0":
			return fmt.Errorf("%s is not in sync with %s", n, primary)
		case info.number("slave_repl_offset") < offset:
			return fmt.Errorf("%s is %d bytes behind %s", n, offset-info.number("slave_repl_offset"), primary)
		}
		if sh.site.opts.Kind == Cluster {
			if err := n.follows(ctx, primary); err != nil {
				return err
			}
		}
	}
	return nil
}

// Settle waits until the site is healthy: each shard has one primary that all nodes agree on and
// that accepts writes, and all other running nodes are replicas in sync.
func (s *Site) Settle(ctx context.Context) error {
	for _, sh := range s.shards {
		if _, err := sh.settled(ctx); err != nil {
			return err
		}
	}
	return nil
}
