package site

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// unlimited lifts a limit.
	unlimited = ^uint64(0)
	// roomLeft is how much a node can still write to its AOF when the disk is full, in bytes.
	roomLeft = 512
	// leastLimit leaves room for the small files that nodes keep beside the AOF: without its own a node of a Cluster would end.
	leastLimit = 16 << 10
)

// Effects of DiskFull.
const (
	Refused = "refused" // the node refused writes
	Exited  = "exited"  // the node ended by itself
)

// DiskFull has the disk be full for a node's AOF for d, by a limit on the size of its files, which needs no privileges. It is over when
// the limit is lifted and the shard is in order again. Linux only.
//
// What Redis 7.0 does: with EverySecond, the write that finds the disk full is still answered, and stays in memory; every later one is
// refused with MISCONF, and so is PING. Within a second after there is room again it writes what it had kept, and all is well; only a
// crash before that loses what was kept. The AOF it cannot load again (see rewriteAOF), so it is told to begin a new one. Sentinels take the refused PING for a sign of death, and fail over after 1.5 s. The nodes of a
// Cluster do not.
//
// With Always the node exits when it finds the disk full, without an answer to the writes that it could not log. It is started again when
// there is room. A replica may have taken over by then.
//
// Effect is Refused, Exited, or "" if too little was written for the disk to be full.
func (s *Site) DiskFull(ctx context.Context, n *Node, d time.Duration) (*Incident, error) {
	i := begin("disk full", n)
	sh := s.shardOf(n)
	if sh == nil {
		return i, fmt.Errorf("disk of %s, which has no AOF: %w", n, ErrNotHere)
	}
	w, err := s.watch(ctx, sh)
	if err != nil {
		return i, err
	}
	_, size := n.newestAOF()
	i.Began = time.Now()
	if err := n.limitFiles(max(uint64(size)+roomLeft, leastLimit)); err != nil { //nolint:gosec // no file has a negative size
		return i, err
	}
	err = pause(ctx, d)
	switch info, failed := n.info(ctx, "persistence"); {
	case n.PID() == 0:
		i.Effect = Exited
	case failed == nil && info["aof_last_write_status"] != "ok":
		i.Effect = Refused
	}
	// A node on a full disk is not left behind.
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
	return i, w.over(ctx, i)
}

// rewriteAOF has the node begin a new AOF. Redis 7.0 goes on behind what it cut off when a write did not fit, and leaves a hole there: it
// could not load the file again.
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
			return errors.New("it is being written")
		}
		return nil
	})
}
