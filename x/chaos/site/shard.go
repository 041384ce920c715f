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

// Shard is a primary and its replicas. The nodes of a shard stay the same; who of them is the primary does not.
type Shard struct {
	site  *Site
	name  string
	nodes []*Node

	mu      sync.Mutex
	primary *Node     // when the shard was last in order
	changed time.Time // when that was first seen to be another one than before
}

// Name is "shard1" and so on.
func (sh *Shard) Name() string { return sh.name }

// Nodes are all nodes of the shard, running or not.
func (sh *Shard) Nodes() []*Node { return sh.nodes }

// Shards are the shards of the site: three of a Cluster, or else one.
func (s *Site) Shards() []*Shard { return s.shards }

// shardOf is the shard that the node belongs to, nil for a Sentinel.
func (s *Site) shardOf(n *Node) *Shard {
	for _, sh := range s.shards {
		if slices.Contains(sh.nodes, n) {
			return sh
		}
	}
	return nil
}

// Primary is the shard's primary, if all nodes that are up (of a Sentinel site all Sentinels that are up) name the same one, none
// takes it for failing, and it takes itself for one.
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
		return nil, fmt.Errorf("primary of %s: %s is to be it, but takes itself for a %s", sh.name, n, role)
	}
	return n, nil
}

// Replicas are the nodes of the shard that are up and take themselves for replicas.
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

// Primaries are the primaries of all shards, as Shard.Primary finds them. Those of shards that have none are left out.
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

// NodeOf is the primary of the shard that the key is in.
func (s *Site) NodeOf(ctx context.Context, key string) (*Node, error) {
	sh, err := s.ShardOf(ctx, key)
	if err != nil {
		return nil, err
	}
	return sh.Primary(ctx)
}

// ShardOf is the shard that the key is in.
func (s *Site) ShardOf(ctx context.Context, key string) (*Shard, error) {
	if s.opts.Kind != Cluster {
		return s.shards[0], nil
	}
	return s.shardOfSlot(ctx, Slot(key))
}

// writable checks that the primary takes writes. It deletes a key that is not there: that changes nothing, and is refused
// wherever a write is.
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

// settled waits until the shard is as it should be: one primary that all agree on and that takes writes, and all other nodes of the
// shard that are up are replicas of it and hold what it held. It returns the primary.
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

// rested waits until the last election in a Cluster's shard is so long ago that the next one is a new one to its nodes.
func (sh *Shard) rested(ctx context.Context) error {
	sh.mu.Lock()
	changed := sh.changed
	sh.mu.Unlock()
	if sh.site.opts.Kind != Cluster || changed.IsZero() {
		return nil
	}
	return pause(ctx, time.Until(changed.Add(electionStands)))
}

// inSync checks that all other nodes of the shard that are up have all that the primary had when it was asked.
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
			return fmt.Errorf("%s is no replica of %s", n, primary)
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

// Settle waits until the whole site is in order: each shard has one primary that all agree on and that takes writes, and all other
// nodes that are up are replicas in sync.
func (s *Site) Settle(ctx context.Context) error {
	for _, sh := range s.shards {
		if _, err := sh.settled(ctx); err != nil {
			return err
		}
	}
	return nil
}
