package site

import (
	"context"
	"errors"
	"time"
)

// DeadShard kills all nodes of a shard, the replicas first, keeps them down for a while, and
// restarts them. The other shards keep working.
//
// Writes may be lost as in a Restart; or, if a replica becomes the primary after the restart,
// writes that had not reached it.
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

// Revive starts stopped nodes, resumes frozen ones, and waits until the site is healthy. Call it at
// the end of a run, or after an incident whose context was canceled.
func (s *Site) Revive(ctx context.Context) error {
	var err error
	nodes := append(append([]*Node(nil), s.sentinels...), s.nodes...)
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
