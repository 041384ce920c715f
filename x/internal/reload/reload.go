// Package reload reads files of long-running programs again after they changed. It checks for
// changes when the content is used, so it needs no goroutine.
package reload

import (
	"os"
	"sync"
	"time"
)

// interval is the minimum time between two checks of the same files.
const interval = 2 * time.Second

// Files detects changes of files, by their modification time and size. It is safe for concurrent
// use.
type Files struct {
	paths []string

	mu    sync.Mutex
	next  time.Time // of the next check
	state []state
}

type state struct {
	modified time.Time
	size     int64
	missing  bool
}

// Watch returns a Files. Create it before the first read of the files, so that it detects all later
// changes. Empty paths are ignored.
func Watch(paths ...string) *Files {
	f := &Files{}
	for _, path := range paths {
		if path != "" {
			f.paths = append(f.paths, path)
		}
	}
	f.state, f.next = f.read(), time.Now().Add(interval)
	return f
}

// Changed reports whether a file has changed since the last call that returned true, or since
// Watch. It reads the state of the files at most every 2 seconds.
func (f *Files) Changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		return false
	}
	f.next = now.Add(interval)
	before := f.state
	f.state = f.read()
	for i, s := range f.state {
		if s.missing != before[i].missing || s.size != before[i].size || !s.modified.Equal(before[i].modified) {
			return true
		}
	}
	return false
}

func (f *Files) read() []state {
	all := make([]state, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			all[i].missing = true
			continue
		}
		all[i] = state{modified: info.ModTime(), size: info.Size()}
	}
	return all
}
