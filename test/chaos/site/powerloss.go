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

// PowerLoss is like Restart, but the machine of the node loses power: data that was not certainly
// on disk is removed from its AOF before the restart. With EverySecond, that is the data of the
// last two seconds; with Always, nothing.
//
// A write may be acknowledged two seconds before it is in the file, so LostFrom is about four
// seconds before the end. If the node started a new AOF within the last two seconds, only that one
// is truncated.
func (s *Site) PowerLoss(ctx context.Context, n *Node, downFor time.Duration) (*Incident, error) {
	i := begin("power loss", n)
	if n.sentinel {
		return i, fmt.Errorf("power loss of %s, which has no AOF: %w", n, ErrUnsupported)
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

// cut truncates the newest AOF to its size at the time, or at the last sample before, and returns
// that time.
func (n *Node) cut(moment time.Time) (from time.Time, cut int64, err error) {
	was := n.sizes.at(moment)
	path, size := n.newestAOF()
	if path == "" {
		return from, 0, errors.New("no AOF found")
	}
	from = was.at
	if _, ok := was.sizes[path]; !ok {
		from = n.sizes.since(path)
	}
	keep := min(was.sizes[path], size)
	return from, size - keep, os.Truncate(path, keep)
}

// newestAOF returns the file that the node appends to: in Redis 7, the incremental file with the
// highest number.
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
