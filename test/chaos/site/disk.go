package site

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// unlimited removes a limit.
	unlimited = ^uint64(0)
	// roomLeft is how many bytes a node can still write to its AOF with a full disk.
	roomLeft = 512
	// leastLimit leaves room for the other files of a node, without which a Cluster node exits.
	leastLimit = 16 << 10
)

// Effects of DiskFull.
const (
	Refused = "refused" // the node rejected writes
	Exited  = "exited"  // the node exited
)

// DiskFull simulates a full disk for the AOF of a node for d, with a limit of its file sizes, which
// needs no privileges. It returns when the limit is removed and the shard is healthy. Linux only.
//
// Redis 7.0 with EverySecond acknowledges the write that fails and keeps it in memory; it rejects
// later writes and PING with MISCONF. When there is space again, it writes the kept data within a
// second; only a crash before that loses it. It cannot load the AOF again (see rewriteAOF), so
// DiskFull makes it start a new one. Sentinels consider the node down because of the rejected PING,
// and fail over after 1.5 s. Cluster nodes do not.
//
// With Always, the node exits without replying to the writes that it could not log. It is restarted
// when there is space. A replica may have taken over.
//
// Effect is Refused, Exited, or "" if too little was written to fill the disk.
func (s *Site) DiskFull(ctx context.Context, n *Node, d time.Duration) (*Incident, error) {
	i := begin("disk full", n)
	sh := s.shardOf(n)
	if sh == nil {
		return i, fmt.Errorf("disk of %s, which has no AOF: %w", n, ErrUnsupported)
	}
	w, err := s.watch(ctx, sh)
	if err != nil {
		return i, err
	}
	_, size := n.newestAOF()
	i.Began = time.Now()
	if err := n.limitFiles(max(uint64(size)+roomLeft, leastLimit)); err != nil { //nolint:gosec // sizes are not negative
		return i, err
	}
	err = pause(ctx, d)
	switch info, failed := n.info(ctx, "persistence"); {
	case n.PID() == 0:
		i.Effect = Exited
	case failed == nil && info["aof_last_write_status"] != "ok":
		i.Effect = Refused
	}
	// Always remove the limit.
	if i.Effect != Exited {
		err = errors.Join(err, n.limitFiles(unlimited))
	}
	if n.PID() == 0 {
		i.Effect = Exited
		err = errors.Join(err, n.Start(ctx))
	}
	if err == nil && i.Effect == Refused {
		err = n.rewriteAOF(ctx)
	}
	if err != nil {
		return i, err
	}
	return i, w.finish(ctx, i)
}

// rewriteAOF makes the node start a new AOF. After a failed write, Redis 7.0 appends behind the
// truncated data and leaves a hole, so it could not load the file again.
func (n *Node) rewriteAOF(ctx context.Context) error {
	asked := false
	return until(ctx, "a new AOF of "+n.name, func(ctx context.Context) error {
		if !asked {
			if err := n.client.BgRewriteAOF(ctx).Err(); err != nil {
				return err
			}
			asked = true
		}
		info, err := n.info(ctx, "persistence")
		if err != nil {
			return err
		}
		if info["aof_rewrite_in_progress"] != "0" || info["aof_rewrite_scheduled"] != "0" || info["aof_last_bgrewrite_status"] != "ok" {
			return errors.New("AOF rewrite in progress")
		}
		return nil
	})
}
