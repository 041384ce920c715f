package site

import (
	"context"
	"fmt"
	"time"
)

// unwritten is how long a write may have been answered before it stands in the AOF, with EverySecond. Redis puts writing off for up
// to two seconds while the disk is busy with the fsync before.
const unwritten = 2 * time.Second

// Restart kills a node with SIGKILL, leaves it down for a while, and starts it again with what its AOF holds. It returns when the
// node has loaded its data, and its shard is in order again.
//
// With EverySecond, what a lone server or a primary answered in the two seconds before may be gone: Redis lets writes wait in its
// memory while an fsync is on its way. With Always nothing is lost. If a replica takes over meanwhile, what had not reached it is gone.
//
// The node may be a Sentinel.
func (s *Site) Restart(ctx context.Context, n *Node, downFor time.Duration) (*Incident, error) {
	return s.restart(ctx, begin("restart", n), n, downFor, nil)
}

// restart is Restart and PowerLoss. damage is done while the node is down; it returns the moment since which writes are gone.
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

// before is a node's role, and if it is its shard's primary the moment before which everything that was answered is on all its replicas.
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
