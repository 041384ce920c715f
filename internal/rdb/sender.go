package rdb

import (
	"crypto/rand"
	"strconv"
	"sync"
)

// sender numbers calls that must not be executed twice. Redis keeps the answer of each sender's last call, so a sender is used by one
// goroutine at a time, and there are as many as are ever needed at once.
type sender struct {
	name string
	seq  uint64
}

// record is the key under which Redis keeps the answer of the sender's i-th call of a pipeline to a queue.
func (s *sender) record(q *queue, i int) string {
	return q.keys.Answer(s.name + "-" + strconv.Itoa(i))
}

// senders lends senders out.
type senders struct {
	id string // unique to the broker

	mu   sync.Mutex
	made int
	free []*sender
}

func newSenders() *senders { return &senders{id: rand.Text()[:16]} }

func (s *senders) take() *sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		last := s.free[n-1]
		s.free = s.free[:n-1]
		return last
	}
	s.made++
	return &sender{name: s.id + "-" + strconv.Itoa(s.made)}
}

func (s *senders) put(from *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, from)
}
