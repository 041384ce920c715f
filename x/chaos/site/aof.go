package site

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// sampleEvery is how often the sizes of the AOFs are looked at.
	sampleEvery = 50 * time.Millisecond
	// synced is how old a write to the AOF must be to be on the disk for certain, with EverySecond: Redis begins an fsync each
	// second, and does not write to the file when the last one takes longer than two.
	synced = 2 * time.Second
	// samplesKept is enough for synced, and some more for a machine that is busy.
	samplesKept = 120
)

// sizes are those of a node's AOF files that grow, by path.
type sizes map[string]int64

type sample struct {
	at    time.Time
	sizes sizes
}

// samples are the sizes of a node's AOFs over the last seconds. The first is from before the node was started.
type samples struct {
	mu   sync.Mutex
	list []sample
}

func (s *samples) begin(sz sizes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []sample{{time.Now(), sz}}
}

func (s *samples) add(sz sizes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list = append(s.list, sample{time.Now(), sz}); len(s.list) > samplesKept {
		s.list = s.list[1:]
	}
}

// at is the last sample that was taken before the moment, or the first of all.
func (s *samples) at(moment time.Time) sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.list[0]
	for _, x := range s.list {
		if !x.at.After(moment) {
			last = x
		}
	}
	return last
}

// since is the first sample in which the file is.
func (s *samples) since(path string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		if _, ok := x.sizes[path]; ok {
			return x.at
		}
	}
	return time.Now()
}

// sampleAOFs looks at the sizes of all AOFs until the site is closed.
func (s *Site) sampleAOFs() {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-ticker.C:
		}
		for _, n := range s.nodes {
			if n.Alive() {
				n.sizes.add(n.aofSizes())
			}
		}
	}
}

// aofSizes are the sizes of the node's AOF files that grow: the incremental ones of Redis 7, or the only one of Redis 6.
func (n *Node) aofSizes() sizes {
	found := make(sizes)
	paths, _ := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof")) // the pattern is one
	for _, path := range append(paths, filepath.Join(n.dir, "appendonly.aof")) {
		if stat, err := os.Stat(path); err == nil && !strings.Contains(filepath.Base(path), "temp") {
			found[path] = stat.Size()
		}
	}
	return found
}
