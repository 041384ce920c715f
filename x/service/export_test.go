package service

import (
	"maps"
	"slices"
	"time"
)

// Patterns returns the patterns of all operations.
func (s *Service) Patterns() []string { return s.patterns }

// Waiting returns the number of waiting requests.
func (s *Service) Waiting() int { return s.api.Waiting() }

// SetBodyTimeout sets how long clients may take to send a body.
func (s *Service) SetBodyTimeout(d time.Duration) { s.bodyTimeout.Store(int64(d)) }

// Maintained returns the queues that the receiver maintains.
func (s *Service) Maintained() []string {
	s.maintainer.applying.Lock()
	defer s.maintainer.applying.Unlock()
	return slices.Sorted(maps.Keys(s.maintainer.weights))
}
