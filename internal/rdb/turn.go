package rdb

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Turn is one round trip of a pump: what to undo, to settle, to fetch and to pass on, in that order, and afterwards the answers.
type Turn struct {
	Undo   []*Undo
	Settle []*Settlement // of each attempt only one: a script checks all of its tasks before it writes
	Fetch  []*Fetch
	Pass   []string // queues whose marker is left afterwards if tasks wait in them; what comes of it is not told
}

// Empty reports whether there is nothing to do. To pass markers on is never a reason for a turn.
func (t *Turn) Empty() bool { return len(t.Undo)+len(t.Settle)+len(t.Fetch) == 0 }

// Turn does everything that t asks for in one pipeline; where Redis has forgotten some of the scripts, those calls come in a second
// one. The answers, and the errors, stand in its parts: one queue's error leaves the others alone.
func (b *Broker) Turn(ctx context.Context, t *Turn) {
	settles := b.settleBatches(t.Settle)
	fetches := make([]*call, len(t.Fetch))
	calls := make([]*call, 0, len(t.Undo)+len(settles)+len(t.Fetch))
	for _, u := range t.Undo {
		calls = append(calls, b.undoCall(u))
	}
	var pairs []*pair
	for _, s := range settles {
		if i := t.partner(s, fetches); i >= 0 {
			p := b.pair(s, t.Fetch[i])
			pairs = append(pairs, p)
			s.call, fetches[i] = &p.settled, &p.fetched
		} else {
			s.call = b.settleCall(s)
			calls = append(calls, s.call)
		}
	}
	for _, p := range pairs { // behind all other settlements: a fetch may need the room that they make
		calls = append(calls, p.call)
	}
	for i, f := range t.Fetch {
		if fetches[i] == nil {
			fetches[i] = b.fetchCall(f)
			calls = append(calls, fetches[i])
		}
	}
	for _, name := range t.Pass {
		c := b.passCall(name)
		c.once, c.after = true, true
		calls = append(calls, c)
	}
	b.run(ctx, calls...)
	for _, p := range pairs {
		p.part()
	}
	for i, u := range t.Undo {
		u.read(calls[i])
	}
	for _, s := range settles {
		s.read()
	}
	for i, f := range t.Fetch {
		f.read(fetches[i])
	}
}

// partner returns the number of a fetch that the batch of settlements can share a call with, -1 if there is none without a call.
func (t *Turn) partner(s *settleBatch, calls []*call) int {
	if s.outcome != Done {
		return -1
	}
	for i, f := range t.Fetch {
		if f.Queue == s.queue.keys.Name && calls[i] == nil {
			return i
		}
	}
	return -1
}

// pair is a call that ends tasks and takes others.
type pair struct {
	call             *call
	settled, fetched call // what either is answered
}

func (b *Broker) pair(s *settleBatch, f *Fetch) *pair {
	q := s.queue
	day := q.today(b.now())
	c := newCall(turnScript, 8+11+len(s.items)).
		key(q.active, q.lease, q.processed, day.processed, q.pending, q.paused, q.marker, q.retry)
	c.once = true
	s.addTasks(c)
	f.addTake(c, q)
	s.addFinish(c)
	return &pair{call: c}
}

// part takes the answer apart.
func (p *pair) part() {
	p.settled, p.fetched = *p.call, *p.call
	reply, ok := p.call.reply.([]any)
	if p.call.err != nil || !ok || len(reply) != 2 {
		return // an error, or what neither can read
	}
	p.settled.reply, p.fetched.reply = reply[0], reply[1]
	p.fetched.err, _ = reply[1].(error)
}

// Fetch asks for tasks of one queue, and holds them afterwards.
type Fetch struct {
	Queue     string
	N         int           // at most 500; fewer come where their messages are more than a megabyte
	Token     string        // unique among all fetches
	Lease     time.Duration // rounded up to seconds
	NotAfter  int64         // by the Redis clock, unix ms: executed later, the call does nothing; 0: at any time
	MaxActive int           // how many tasks of the queue may be active on all servers together; InOrder; anything else below 1: any number
	Mark      bool          // leave the marker for another server if tasks are left
	Waits     bool          // tell how long the tasks have waited

	Code    Code      // CodeOK, CodeStale, CodePaused or CodeCapped
	Now     int64     // by the Redis clock, unix ms
	More    bool      // tasks were left in pending
	Tasks   []Fetched // oldest first
	Dropped []string  // IDs in pending that no pending task had
	Err     error
}

// InOrder as Fetch.MaxActive lets one task be active, and none start while another waits for its retry. Forward must be told of the queue,
// too. It is a number that nobody comes to by accident.
const InOrder = math.MinInt32

// Fetched is a task that a fetch took.
type Fetched struct {
	ID      string
	Message []byte // encoded; may be malformed

	// Wait is how long it was pending, if Fetch.Waits is set; less than 0 if that is not known.
	Wait time.Duration
}

func (b *Broker) fetchCall(f *Fetch) *call {
	q := b.queues.get(f.Queue)
	c := newCall(fetchScript, 6+8).key(q.active, q.lease, q.pending, q.paused, q.marker, q.retry)
	c.once = true
	return f.addTake(c, q)
}

// addTake adds the arguments of lib/take.lua.
func (f *Fetch) addTake(c *call, q *queue) *call {
	most := max(f.MaxActive, 0)
	if f.MaxActive == InOrder {
		most = -1
	}
	return c.arg(q.taskPrefix, min(f.N, maxBatch), seconds(f.Lease), f.Token, f.NotAfter, most, flag(f.Mark), flag(f.Waits))
}

func (f *Fetch) read(c *call) {
	if c.err != nil {
		f.Err = fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
		return
	}
	reply, ok := c.reply.([]any)
	each := 2
	if f.Waits {
		each = 3
	}
	if !ok || len(reply) < 3 || (len(reply)-3)%each != 0 {
		f.Err = c.malformed()
		return
	}
	code, ok1 := reply[0].(int64)
	now, ok2 := reply[1].(int64)
	if !ok1 || !ok2 {
		f.Err = c.malformed()
		return
	}
	f.Code, f.Now, f.More = Code(code), now, reply[2] == int64(1)
	if len(reply) == 3 {
		return
	}
	f.Tasks = make([]Fetched, 0, (len(reply)-3)/each)
	for i := 3; i < len(reply); i += each {
		id, _ := reply[i].(string)
		if msg, ok := reply[i+1].(string); ok {
			task := Fetched{ID: id, Message: []byte(msg)}
			if f.Waits {
				us, _ := reply[i+2].(int64)
				task.Wait = time.Duration(us) * time.Microsecond
			}
			f.Tasks = append(f.Tasks, task)
		} else {
			f.Dropped = append(f.Dropped, id)
		}
	}
}

// Undo puts back what a fetch with an unknown reply took. It takes as many turns as there are leases to look through.
type Undo struct {
	Queue string
	Token string

	Cursor string // where to go on: "0" in the first turn; and in the end again
	Back   int    // how many tasks were put back, over all turns
	Err    error
}

// Begins reports whether the next turn looks through the leases from the first one on.
func (u *Undo) Begins() bool { return u.Cursor == "" || u.Cursor == "0" }

// Done reports whether all leases have been looked through.
func (u *Undo) Done() bool { return u.Err == nil && u.Cursor == "0" }

func (b *Broker) undoCall(u *Undo) *call {
	q := b.queues.get(u.Queue)
	if u.Cursor == "" {
		u.Cursor = "0"
	}
	c := newCall(unfetchScript, 4+3).
		key(q.pending, q.active, q.lease, q.marker).
		arg(q.taskPrefix, u.Token, u.Cursor)
	c.once = true
	return c
}

func (u *Undo) read(c *call) {
	u.Err = nil
	if c.err != nil {
		u.Err = fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
		return
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply) != 2 {
		u.Err = c.malformed()
		return
	}
	cursor, ok1 := reply[0].(string)
	n, ok2 := reply[1].(int64)
	if !ok1 || !ok2 {
		u.Err = c.malformed()
		return
	}
	u.Cursor = cursor
	u.Back += int(n)
}
