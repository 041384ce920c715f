package dash

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

const (
	// progressInterval is how often a search reports progress.
	progressInterval = 200 * time.Millisecond
	// searchBackoff is the pause before a search repeats, as a multiple of its duration.
	searchBackoff = 4
)

// searchResult is the result or the progress of a search.
type searchResult struct {
	tasks   []*asynq.TaskInfo
	scanned int

	running bool
	more    bool // more matches exist than the page shows
	stopped bool // the user stopped it
}

// search scans all tasks of a state and collects a page of those that match the filter. It runs
// concurrently with the poller and wakes it when there are new results.
type search struct {
	query  query
	cancel context.CancelFunc
	began  time.Time
	before *search // the previous run, shown while this one runs

	mu    sync.Mutex
	found searchResult
	err   error
	ended time.Time
}

// startSearch starts a search. The search ends with ctx at the latest, and then calls done.
func startSearch(ctx context.Context, insp *asynq.Inspector, q query, before *search, wake, done func()) *search {
	ctx, cancel := context.WithCancel(ctx)
	s := &search{query: q, cancel: cancel, began: time.Now(), before: before, found: searchResult{running: true}}
	go func() {
		defer done()
		err := s.run(ctx, insp, wake)
		cancel()
		s.mu.Lock()
		s.found.running, s.ended = false, time.Now()
		if !s.found.stopped {
			s.err = err
		}
		s.mu.Unlock()
		wake()
	}()
	return s
}

func (s *search) run(ctx context.Context, insp *asynq.Inspector, wake func()) error {
	f, err := filter.Parse(s.query.filter)
	if err != nil || !f.MayMatch(s.query.queue, s.query.state) {
		return err
	}
	reported := s.began
	search := f.TaskFilter()
	search.Group, search.Reverse = s.query.group, s.query.reverse
	search.Scanned = func(n int) {
		s.mu.Lock()
		s.found.scanned = n
		s.mu.Unlock()
		if time.Since(reported) >= progressInterval {
			reported = time.Now()
			wake()
		}
	}
	skip := s.query.number * tasksPerPage
	for task, err := range insp.Tasks(ctx, s.query.queue, s.query.state, search) {
		if err != nil {
			return err
		}
		if skip > 0 {
			skip--
			continue
		}
		if !s.add(task) {
			return nil
		}
	}
	return nil
}

// add adds a match. It returns false if the page is full.
func (s *search) add(task *asynq.TaskInfo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found.tasks) == tasksPerPage {
		s.found.more = true
		return false
	}
	s.found.tasks = append(s.found.tasks, task)
	return true
}

// stop stops the search and keeps its matches.
func (s *search) stop() {
	s.mu.Lock()
	if s.found.running {
		s.found.stopped = true
	}
	s.mu.Unlock()
	s.cancel()
}

// body returns the matches so far.
func (s *search) body() (body, error) {
	s.mu.Lock()
	result, err := s.found, s.err
	s.mu.Unlock()
	if result.running && s.before != nil {
		return s.before.body()
	}
	if errors.Is(err, context.Canceled) {
		err = nil // another search follows
	}
	return body{tasks: result.tasks, found: &result}, err
}

func (s *search) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found.running
}

// due reports whether to repeat the search: not while it runs, not after the user stopped it, and
// not before its backoff has passed.
func (s *search) due(refresh time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.found.running && !s.found.stopped && time.Since(s.ended) >= max(refresh/2, searchBackoff*s.ended.Sub(s.began))
}
