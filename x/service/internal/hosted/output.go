package hosted

import (
	"fmt"
	"slices"
	"sync"
)

// output keeps the beginning and the end of the text written, each up to half of most. Write
// accepts everything, so that programs never block. It is safe for concurrent use.
type output struct {
	mu    sync.Mutex
	most  int
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // write position in the ring
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

// bytes returns the kept output, with a line in place of the omitted part.
func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := slices.Clone(o.head)
	if lost := o.total - int64(len(o.head)+len(o.tail)); lost > 0 {
		text = fmt.Appendf(text, "\n[%d bytes omitted]\n", lost)
	}
	text = append(text, o.tail[o.next:]...)
	return append(text, o.tail[:o.next]...)
}
