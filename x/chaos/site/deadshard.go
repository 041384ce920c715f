package site

import (
	"context"
	"errors"
	"time"
)

// DeadShard kills all nodes of a shard at once, the replicas first, leaves them down for a while, and starts them again. The slots of
// the other shards are served all the while.
//
// What may be gone then is what a Restart would lose; or if a replica takes the primary's place when they come back, what had not
// reached it.
func (s *Site) DeadShard(ctx context.Context, sh *Shard, downFor time.Duration) (*Incident, error) {
	i := begin("dead shard", sh.nodes...)
	old, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	covered, err := sh.replicated(ctx, old)
	if err != nil {
		return i, err
	}
	i.Began = time.Now()
	for _, n := range sh.nodes {
		if n != old {
			err = errors.Join(err, n.Kill())
		}
	}
	if err := errors.Join(err, old.Kill()); err != nil {
		return i, err
	}
	killed := time.Now()
	if err := pause(ctx, downFor); err != nil {
		return i, err
	}
	if err := startAll(ctx, sh.nodes); err != nil {
		return i, err
	}
	now, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	i.Over, i.Primary = time.Now(), now.name
	if now != old {
		i.lost(covered, i.Over)
	}
	if s.opts.Fsync == EverySecond {
		i.lost(killed.Add(-unwritten), killed)
	}
	return i, nil
}

// Revive starts all nodes that are down, lets all go on that are frozen, and waits until the site is in order. It is for the end
// of a run, or after an incident whose context ended.
func (s *Site) Revive(ctx context.Context) error {
	var err error
	nodes := append(append([]*Node(nil), s.judges...), s.nodes...)
	for _, n := range nodes {
		err = errors.Join(err, n.Thaw())
	}
	if err := errors.Join(err, startAll(ctx, nodes)); err != nil {
		return err
	}
	for _, n := range s.nodes {
		if err := errors.Join(n.limitFiles(unlimited), n.client.ConfigSet(ctx, "maxmemory", "0").Err()); err != nil {
			return err
		}
	}
	return s.Settle(ctx)
}
