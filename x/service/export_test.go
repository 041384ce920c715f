package service

// Patterns are those of all operations.
func (s *Service) Patterns() []string { return s.patterns }

// Waiting is how many requests wait for tasks or results.
func (s *Service) Waiting() int { return s.api.Waiting() }
