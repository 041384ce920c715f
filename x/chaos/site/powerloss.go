package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PowerLoss is Restart of a node whose machine loses power: what was not on the disk for certain is cut off its AOF before it starts
// again. That is, with EverySecond, what was written to it in the last two seconds; with Always nothing is cut.
//
// A write may be answered two seconds before it is in the file, so LostFrom is about four seconds before the end. Where the node has
// begun a new AOF within the last two seconds, only that one is cut.
func (s *Site) PowerLoss(ctx context.Context, n *Node, downFor time.Duration) (*Incident, error) {
	i := begin("power loss", n)
	if n.sentinel {
		return i, fmt.Errorf("power loss of %s, which has no AOF: %w", n, ErrNotHere)
	}
	if s.opts.Fsync == Always {
		return s.restart(ctx, i, n, downFor, nil)
	}
	return s.restart(ctx, i, n, downFor, func(killed time.Time) (time.Time, error) {
		from, cut, err := n.cut(killed.Add(-synced))
		i.Cut = cut
		return from.Add(-unwritten), err
	})
}

// cut shortens the newest AOF to what it was at the moment, or at the last look before, and returns when that was.
func (n *Node) cut(moment time.Time) (from time.Time, cut int64, err error) {
	was := n.sizes.at(moment)
	path, size := n.newestAOF()
	if path == "" {
		return from, 0, errors.New("there is no AOF to cut")
	}
	from = was.at
	if _, ok := was.sizes[path]; !ok {
		from = n.sizes.since(path)
	}
	keep := min(was.sizes[path], size)
	return from, size - keep, os.Truncate(path, keep)
}

// newestAOF is the file that the node appends to: the incremental one with the highest number, in Redis 7.
func (n *Node) newestAOF() (path string, size int64) {
	highest := -1
	for p, sz := range n.aofSizes() {
		number := 0
		if words := strings.Split(filepath.Base(p), "."); len(words) > 2 {
			number, _ = strconv.Atoi(words[2]) // appendonly.aof.<number>.incr.aof
		}
		if number > highest {
			highest, path, size = number, p, sz
		}
	}
	return path, size
}
