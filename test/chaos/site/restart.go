package site

import (
	"context"
	"fmt"
	"time"
)

// unwritten is how long before it is in the AOF a write may be acknowledged with EverySecond: Redis
// delays writes for up to two seconds while an fsync is running.
const unwritten = 2 * time.Second

// Restart kills a node with SIGKILL, keeps it down for a while, and restarts it with its AOF. It
// returns when the node has loaded its data and its shard is healthy.
//
// With EverySecond, a standalone server or a primary may lose the writes of the last two seconds.
// With Always, nothing is lost. If a replica takes over, writes that had not reached it are lost.
//
// The node may be a Sentinel.
func (s *Site) Restart(ctx context.Context, n *Node, downFor time.Duration) (*Incident, error) {
	return s.restart(ctx, begin("restart", n), n, downFor, nil)
}

// restart implements Restart and PowerLoss. damage runs while the node is down, and returns the
// time since which writes are lost.
func (s *Site) restart(ctx context.Context, i *Incident, n *Node, downFor time.Duration, damage func(killed time.Time) (time.Time, error),
) (*Incident, error) {
	sh := s.shardOf(n)
	was, covered, err := s.before(ctx, sh, n)
	if err != nil {
		return i, err
	}
	i.Began = time.Now()
	if err := n.Kill(); err != nil {
		return i, err
	}
	killed := time.Now()
	var kept time.Time // all writes before this are in the AOF
	if s.opts.Fsync == EverySecond {
		kept = killed.Add(-unwritten)
	}
	if damage != nil {
		if kept, err = damage(killed); err != nil {
			return i, err
		}
	}
	if err := pause(ctx, downFor); err != nil {
		return i, err
	}
	if err := n.Start(ctx); err != nil {
		return i, err
	}
	if sh == nil {
		i.Over = time.Now()
		return i, nil
	}
	now, err := sh.settled(ctx)
	if err != nil {
		return i, err
	}
	i.Over, i.Primary = time.Now(), now.name
	switch {
	case was != Primary:
	case now != n:
		i.lost(covered, i.Over)
	case !kept.IsZero():
		i.lost(kept, killed)
	}
	return i, nil
}

// before returns the role of a node and, for a primary, the time before which all acknowledged
// writes are replicated.
func (s *Site) before(ctx context.Context, sh *Shard, n *Node) (Role, time.Time, error) {
	role, err := n.Role(ctx)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("before %s is killed: %w", n, err)
	}
	if role != Primary {
		return role, time.Time{}, nil
	}
	covered, err := sh.replicated(ctx, n)
	return role, covered, err
}
