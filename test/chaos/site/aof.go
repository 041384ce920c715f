package site

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// sampleEvery is the sample interval of AOF sizes.
	sampleEvery = 50 * time.Millisecond
	// synced is the age at which a write to the AOF is certainly on disk with EverySecond: Redis
	// starts an fsync each second, and does not write to the file while an fsync takes longer than
	// two seconds.
	synced = 2 * time.Second
	// samplesKept covers synced, with a reserve for busy machines.
	samplesKept = 120
)

// sizes maps the growing AOF files of a node to their sizes.
type sizes map[string]int64

type sample struct {
	at    time.Time
	sizes sizes
}

// samples holds the AOF sizes of a node over the last seconds, beginning before its start.
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

// at returns the last sample taken before a time, or the first one.
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

// since returns the first sample that contains the file.
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

// sampleAOFs samples the sizes of all AOFs until the site is closed.
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

// aofSizes returns the sizes of the growing AOF files of a node: the incremental files of Redis 7,
// or the file of Redis 6.
func (n *Node) aofSizes() sizes {
	found := make(sizes)
	paths, _ := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof")) // the pattern is valid
	for _, path := range append(paths, filepath.Join(n.dir, "appendonly.aof")) {
		if stat, err := os.Stat(path); err == nil && !strings.Contains(filepath.Base(path), "temp") {
			found[path] = stat.Size()
		}
	}
	return found
}
