package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Way is how a failover comes about.
type Way string

// Ways of failovers.
const (
	Crash  Way = "crash"  // the primary is killed, and comes back when another one has its place
	Freeze Way = "freeze" // the primary is frozen, and goes on when another one has its place, as if nothing had happened
	Order  Way = "order"  // the Sentinels, or a replica in the Cluster, are told to do it
)

// electionStands is four times the nodes' timeout, and a bit. For that long a node of Redis 7.0 remembers the votes that it got: told
// to take over again, it counts those, and takes itself for elected while nobody else does.
const electionStands = 6500 * time.Millisecond

// orderStands is how long an order is given to be carried out before it is given again: nodes drop what they cannot do in five
// seconds.
const orderStands = 6 * time.Second

// Failover has another node become the primary of the shard, and returns when the old one is a replica in sync.
//
// Replication is asynchronous. What the primary answered right before a crash may be gone, and after a freeze also what it
// answers until it learns of its fate. On the order of Sentinel the writes of the change are lost as well. On the order of a replica
// in the Cluster nothing is: the primary holds back its clients until the replica has everything. Such an order waits until the last
// change of the shard's primary is 6.5 s ago.
//
// All replicas have everything from before LostFrom: Failover waits for that before it begins.
func (s *Site) Failover(ctx context.Context, sh *Shard, way Way) (*Incident, error) {
	i := begin("failover by " + string(way))
	if len(sh.nodes) < 2 {
		return i, fmt.Errorf("failover of %s, which has no replica: %w", sh.name, ErrNotHere)
	}
	old, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	if way == Order {
		if err := sh.rested(ctx); err != nil {
			return i, err
		}
	}
	covered, err := sh.replicated(ctx, old)
	if err != nil {
		return i, err
	}
	i.Nodes, i.Began = []string{old.name}, time.Now()
	switch way {
	case Crash:
		err = old.Kill()
	case Freeze:
		err = old.Freeze()
	case Order:
		err = sh.order(ctx)
	default:
		err = fmt.Errorf("no such way of a failover: %q", way)
	}
	if err != nil {
		return i, err
	}
	struck := time.Now()
	err = sh.succeeded(ctx, i, old, way)
	switch way { // even after an error: the site must not be left without a node
	case Crash:
		err = errors.Join(err, old.Start(ctx))
	case Freeze:
		err = errors.Join(err, old.Thaw())
	}
	if err != nil {
		return i, err
	}
	now, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	i.Over, i.Primary = time.Now(), now.name
	if i.Writable.IsZero() {
		i.Writable = i.Over
	}
	switch {
	case way == Crash:
		i.lost(covered, struck)
	case way == Freeze || s.opts.Kind == Sentinel:
		i.lost(covered, i.Over)
	}
	return i, nil
}

// succeeded waits until all agree on another primary than the old one, and that one takes writes. If it needs the old one as a
// replica for that, the first must do.
func (sh *Shard) succeeded(ctx context.Context, i *Incident, old *Node, way Way) error {
	ordered := time.Now()
	return until(ctx, "another primary of "+sh.name, func(ctx context.Context) error {
		if i.Writable.IsZero() && sh.takesWrites(ctx, old) {
			i.Writable = time.Now()
		}
		now, err := sh.Primary(ctx)
		switch {
		case err != nil:
			return err
		case now == old && way == Order && time.Since(ordered) > orderStands:
			ordered = time.Now()
			return errors.Join(fmt.Errorf("%s is still the primary", old), sh.order(ctx))
		case now == old:
			return fmt.Errorf("%s is still the primary", old)
		case i.Elected.IsZero():
			i.Elected = time.Now()
		}
		if i.Writable.IsZero() && sh.site.opts.MinReplicas <= len(sh.nodes)-2 {
			return fmt.Errorf("%s does not take writes yet", now)
		}
		return nil
	})
}

// takesWrites reports whether a node other than the old primary takes writes, whoever knows of it.
func (sh *Shard) takesWrites(ctx context.Context, old *Node) bool {
	return slices.ContainsFunc(sh.nodes, func(n *Node) bool {
		return n != old && n.Alive() && sh.writable(ctx, n) == nil
	})
}

// order tells those who decide that another node is to be the primary.
func (sh *Shard) order(ctx context.Context) error {
	return until(ctx, "the order to be taken", func(ctx context.Context) error {
		if sh.site.opts.Kind == Sentinel {
			for _, judge := range sh.site.judges {
				if judge.Alive() {
					return judge.client.Do(ctx, "sentinel", "failover", masterName).Err()
				}
			}
			return final{errors.New("no Sentinel is up")}
		}
		replicas, err := sh.Replicas(ctx)
		if err != nil || len(replicas) == 0 {
			return fmt.Errorf("no replica of %s is up: %w", sh.name, err)
		}
		return replicas[0].client.ClusterFailover(ctx).Err()
	})
}
