package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode is the cause of a failover.
type Mode string

// Causes of failovers.
const (
	Crash  Mode = "crash"  // the primary is killed, and restarted after the failover
	Freeze Mode = "freeze" // the primary is frozen, and resumed after the failover
	Order  Mode = "order"  // a Sentinel or a replica in the Cluster receives a failover command
)

// electionTTL is slightly more than four times the node timeout. For that long, a Redis 7.0 node
// remembers votes: if it starts another failover before, it counts old votes and considers itself
// elected while other nodes do not.
const electionTTL = 6500 * time.Millisecond

// requestTTL is how long a failover command may take before it is repeated: nodes give up after
// five seconds.
const requestTTL = 6 * time.Second

// Failover makes another node the primary of the shard, and returns when the old one is a replica
// in sync.
//
// Replication is asynchronous. A crash may lose writes that were acknowledged right before it, and
// a freeze also those that the old primary acknowledges until it is demoted. A manual failover of
// Sentinel loses writes during the switch. A manual failover of a Cluster loses nothing: the
// primary blocks its clients until the replica has everything. It waits until the last change of
// the primary is 6.5 s ago.
//
// Before it starts, Failover waits until all replicas have all writes from before LostFrom.
func (s *Site) Failover(ctx context.Context, sh *Shard, mode Mode) (*Incident, error) {
	i := begin("failover by " + string(mode))
	if len(sh.nodes) < 2 {
		return i, fmt.Errorf("failover of %s, which has no replica: %w", sh.name, ErrUnsupported)
	}
	old, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	if mode == Order {
		if err := sh.electionExpired(ctx); err != nil {
			return i, err
		}
	}
	covered, err := sh.replicated(ctx, old)
	if err != nil {
		return i, err
	}
	i.Nodes, i.Began = []string{old.name}, time.Now()
	switch mode {
	case Crash:
		err = old.Kill()
	case Freeze:
		err = old.Freeze()
	case Order:
		err = sh.requestFailover(ctx)
	default:
		err = fmt.Errorf("unknown cause of a failover: %q", mode)
	}
	if err != nil {
		return i, err
	}
	affected := time.Now()
	err = sh.succeeded(ctx, i, old, mode)
	switch mode { // also after an error: restore the node
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
	case mode == Crash:
		i.lost(covered, affected)
	case mode == Freeze || s.opts.Kind == Sentinel:
		i.lost(covered, i.Over)
	}
	return i, nil
}

// succeeded waits until all nodes agree on a new primary that accepts writes, or at least on a new
// primary, if it needs the old one as a replica to accept writes.
func (sh *Shard) succeeded(ctx context.Context, i *Incident, old *Node, mode Mode) error {
	ordered := time.Now()
	return until(ctx, "another primary of "+sh.name, func(ctx context.Context) error {
		if i.Writable.IsZero() && sh.takesWrites(ctx, old) {
			i.Writable = time.Now()
		}
		now, err := sh.Primary(ctx)
		switch {
		case err != nil:
			return err
		case now == old && mode == Order && time.Since(ordered) > requestTTL:
			ordered = time.Now()
			return errors.Join(fmt.Errorf("%s is still the primary", old), sh.requestFailover(ctx))
		case now == old:
			return fmt.Errorf("%s is still the primary", old)
		case i.Elected.IsZero():
			i.Elected = time.Now()
		}
		if i.Writable.IsZero() && sh.site.opts.MinReplicas <= len(sh.nodes)-2 {
			return fmt.Errorf("%s does not accept writes yet", now)
		}
		return nil
	})
}

// takesWrites reports whether a node other than the old primary accepts writes.
func (sh *Shard) takesWrites(ctx context.Context, old *Node) bool {
	return slices.ContainsFunc(sh.nodes, func(n *Node) bool {
		return n != old && n.Alive() && sh.writable(ctx, n) == nil
	})
}

// requestFailover sends the failover command.
func (sh *Shard) requestFailover(ctx context.Context) error {
	return until(ctx, "the order to be taken", func(ctx context.Context) error {
		if sh.site.opts.Kind == Sentinel {
			for _, sentinel := range sh.site.sentinels {
				if sentinel.Alive() {
					return sentinel.client.Do(ctx, "sentinel", "failover", masterName).Err()
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
