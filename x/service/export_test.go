package service

import "time"

// Patterns are those of all operations.
func (s *Service) Patterns() []string { return s.patterns }

// Waiting is how many requests wait for tasks or results.
func (s *Service) Waiting() int { return s.api.Waiting() }

// SetBodyTimeout sets how long clients may take to send a body.
func (s *Service) SetBodyTimeout(d time.Duration) { s.bodyTimeout.Store(int64(d)) }
