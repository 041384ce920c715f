package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// sums are numbers that are read from Redis for a time.
type sums[T any] interface {
	order() int // lower ones get a series of their own first
	total() int64
	add(other T, sign int64)
}

// sourceName is a type or a kind of errors in a queue. An empty name stands for all others.
type sourceName struct{ queue, name string }

// counters add up by how much sums grow from one read to the next. The first ones, up to a limit,
// have a series of their own, and the others of a queue share one.
type counters[T sums[T]] struct {
	limit  int
	zero   func() T
	known  map[sourceName]*source[T]
	series map[sourceName]T
}

// source is what was read last for a name.
type source[T any] struct {
	last   T
	series sourceName
	seen   time.Time
}

func newCounters[T sums[T]](limit int, zero func() T) *counters[T] {
	return &counters[T]{limit: limit, zero: zero, known: make(map[sourceName]*source[T]), series: make(map[sourceName]T)}
}

// advance adds what has been added to Redis since the last read. first ignores what was there
// before.
func (c *counters[T]) advance(found map[sourceName]T, now time.Time, first bool) {
	names := slices.SortedFunc(maps.Keys(found), func(a, b sourceName) int {
		return cmp.Or(cmp.Compare(found[a].order(), found[b].order()), strings.Compare(a.queue, b.queue), strings.Compare(a.name, b.name))
	})
	for _, name := range names {
		s := c.known[name]
		if s == nil {
			s = &source[T]{last: c.zero(), series: c.assign(name)}
			c.known[name] = s
			if first {
				s.last.add(found[name], 1)
			}
		}
		if found[name].total() < s.last.total() {
			s.last = c.zero() // the queue was deleted
		}
		c.series[s.series].add(found[name], 1)
		c.series[s.series].add(s.last, -1)
		s.last, s.seen = found[name], now
	}
	for name, s := range c.known {
		if _, ok := found[name]; ok {
			continue
		}
		s.last = c.zero() // too old to be read, or deleted
		if now.Sub(s.seen) > statsKept {
			delete(c.known, name)
		}
	}
	used := make(map[sourceName]bool)
	for _, s := range c.known {
		used[s.series] = true
	}
	maps.DeleteFunc(c.series, func(name sourceName, _ T) bool { return !used[name] })
}

// leave removes what will not be read any more.
func (c *counters[T]) leave(old map[sourceName]T) {
	for name, sums := range old {
		if s := c.known[name]; s != nil {
			s.last.add(sums, -1)
		}
	}
}

// assign returns the series of a new name.
func (c *counters[T]) assign(name sourceName) sourceName {
	own := 0
	for series := range c.series {
		if series.name != "" {
			own++
		}
	}
	if _, ok := c.series[name]; !ok && own >= c.limit || name.name == other {
		name.name = ""
	}
	if _, ok := c.series[name]; !ok {
		c.series[name] = c.zero()
	}
	return name
}
