package hosted

import (
	"fmt"
	"slices"
	"sync"
)

// output keeps the beginning and the end of what is written to it, each up to half of most. It takes everything, so that no program
// waits for it. It is safe for concurrent use.
type output struct {
	mu    sync.Mutex
	most  int
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring goes on
	total int64
}

func newOutput(most int) *output { return &output{most: most} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	o.total += int64(n)
	if room := o.most/2 - len(o.head); room > 0 {
		room = min(room, len(p))
		o.head = append(o.head, p[:room]...)
		p = p[room:]
	}
	size := o.most - o.most/2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := min(size-len(o.tail), len(p)); room > 0 {
		o.tail = append(o.tail, p[:room]...)
		p = p[room:]
	}
	for len(p) > 0 {
		written := copy(o.tail[o.next:], p)
		p = p[written:]
		o.next = (o.next + written) % size
	}
	return n, nil
}

// bytes returns what is kept, with a line in the place of what is not.
func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := slices.Clone(o.head)
	if lost := o.total - int64(len(o.head)+len(o.tail)); lost > 0 {
		text = fmt.Appendf(text, "\n[%d bytes left out]\n", lost)
	}
	text = append(text, o.tail[o.next:]...)
	return append(text, o.tail[:o.next]...)
}
