// Package share computes what partitions get of their queue.
package share

import (
	"cmp"

	"github.com/asynq-go/asynq"
)

// Shares are the shares of the partitions of a queue.
type Shares struct {
	weight     float64 // of partitions without their own
	known      bool    // servers publish the weight, and agree on it
	total      float64
	own, other int // partitions with and without a weight of their own
}

// Of returns the shares of a queue, given all servers. Each partition must be added.
func Of(queue string, servers []*asynq.ServerInfo) *Shares {
	s := &Shares{weight: 1}
	for _, server := range servers {
		p, divided := server.Partitions[queue]
		switch {
		case divided && s.known && p.Weight != s.weight:
			return &Shares{weight: 1}
		case divided:
			s.weight, s.known = cmp.Or(p.Weight, 1), true
		}
	}
	return s
}

// Add adds a partition to those that share the queue.
func (s *Shares) Add(p *asynq.PartitionInfo) {
	s.total += cmp.Or(p.Settings.Weight, s.weight)
	if p.Settings.Weight != 0 {
		s.own++
	} else {
		s.other++
	}
}

// Known reports whether the shares are known: they are not if they depend on a weight that no
// server publishes, or on which servers differ.
func (s *Shares) Known() bool { return s.known || s.own == 0 || s.other == 0 }

// Part returns the share of a partition while all that were added have tasks, from 0 to 1. It
// returns 0 if the shares are not known.
func (s *Shares) Part(p *asynq.PartitionInfo) float64 {
	if !s.Known() {
		return 0
	}
	return cmp.Or(p.Settings.Weight, s.weight) / s.total
}
