package rdb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// RoundTrip is one pipeline of a fetcher: reclaims, settlements and fetches, in this order.
// Broker.RoundTrip fills in their results.
type RoundTrip struct {
	Reclaim []*Reclaim
	Settle  []*Settlement // at most one per attempt: a script checks all of its tasks before it writes
	Fetch   []*Fetch
}

// Empty reports whether there is nothing to do.
func (t *RoundTrip) Empty() bool { return len(t.Reclaim)+len(t.Settle)+len(t.Fetch) == 0 }

// RoundTrip executes t in one pipeline, or in two if Redis has lost some of the scripts. It stores
// results and errors in the parts of t; an error of one queue does not affect the others.
func (b *Broker) RoundTrip(ctx context.Context, t *RoundTrip) {
	settles := b.settleBatches(t.Settle)
	fetches := make([]*script.Call, len(t.Fetch))
	calls := make([]*script.Call, 0, len(t.Reclaim)+len(settles)+len(t.Fetch))
	for _, u := range t.Reclaim {
		calls = append(calls, b.reclaimCall(u))
	}
	var pairs []*pair
	for _, s := range settles {
		s.mark = s.mark && !slices.ContainsFunc(t.Fetch, func(f *Fetch) bool { return f.Queue == s.queue.Keys.Name }) // the fetch does it
		if i := t.partner(s, fetches); i >= 0 {
			p := b.pair(s, t.Fetch[i])
			pairs = append(pairs, p)
			s.call, fetches[i] = &p.settled, &p.fetched
		} else {
			s.call = b.settleCall(s)
			calls = append(calls, s.call)
		}
	}
	calls = b.appendAwaits(calls, t.Settle)
	for _, p := range pairs { // after all other settlements: they free capacity for the fetches
		calls = append(calls, p.call)
	}
	for i, f := range t.Fetch {
		if fetches[i] == nil {
			fetches[i] = b.fetchCall(f)
			calls = append(calls, fetches[i])
		}
	}
	b.Run(ctx, calls...)
	for _, p := range pairs {
		p.split()
	}
	for i, u := range t.Reclaim {
		u.read(calls[i])
	}
	for _, s := range settles {
		s.read()
	}
	for i, f := range t.Fetch {
		f.read(fetches[i])
	}
	b.readLarge(ctx, t.Fetch)
}

// partner returns the index of a fetch that can share a call with the batch of settlements, -1 if
// there is none.
func (t *RoundTrip) partner(s *settleBatch, calls []*script.Call) int {
	if !s.short() {
		return -1
	}
	for i, f := range t.Fetch {
		if f.Queue == s.queue.Keys.Name && calls[i] == nil && f.Partitions == nil {
			return i
		}
	}
	return -1
}

// pair is a call that settles tasks and fetches others.
type pair struct {
	call             *script.Call
	settled, fetched script.Call // the two parts of the reply
}

func (b *Broker) pair(s *settleBatch, f *Fetch) *pair {
	q := s.queue
	day := q.Today(time.Now())
	both := doneFetchScript
	if s.script == doneMembersScript {
		both = doneFetchMembersScript
	}
	c := script.NewCall(both, 8+12+len(s.items)).
		Key(q.Active, q.Lease, q.Processed, day.Processed, q.Pending, q.Paused, q.Marker, q.Retry)
	c.Once = true
	s.sort()
	s.addTasks(c)
	f.addTake(c, q)
	s.addFinish(c)
	return &pair{call: c}
}

// split splits the reply.
func (p *pair) split() {
	p.settled, p.fetched = *p.call, *p.call
	reply, ok := p.call.Reply.([]any)
	if p.call.Err != nil || !ok || len(reply) != 2 {
		return // an error, which both parts report
	}
	p.settled.Reply, p.fetched.Reply = reply[0], reply[1]
	p.fetched.Err, _ = reply[1].(error)
}

// Fetch requests tasks of one queue, and holds the result.
type Fetch struct {
	Queue     string
	N         int           // at most 500; a reply has fewer if their messages exceed a megabyte
	Token     string        // unique among all fetches
	Lease     time.Duration // rounded up to seconds
	NotAfter  int64         // unix ms by the Redis clock: a later call does nothing; 0: no limit
	MaxActive int           // maximum active tasks of the queue on all servers; InOrder; 0 or less: unlimited
	Mark      bool          // set the marker for another server if tasks remain
	Waits     bool          // return the waiting times

	Partitions *Partitions // set if the queue has partitions; MaxActive must not be InOrder
	Ended      []Ended     // at most MaxEnded; only with Partitions
	Sweep      bool        // check some of the running tasks; only with Partitions
	BeforeSort bool        // the first tasks may start before the others are sorted; only with Partitions

	Code     script.Code // CodeOK, CodeStale, CodePaused or CodeCapped
	Now      int64       // by the Redis clock, unix ms
	More     bool        // tasks remain pending, or may start
	Unsorted bool        // a part of the inbox must be sorted before others start; only with Partitions, and More
	Due      int64       // when to check the limits of partitions next, unix ms; 0: none holds tasks
	Kept     int         // how many of Ended keep their places, because they have leases
	Tasks    []Fetched   // oldest first
	Dropped  []string    // IDs without a pending task
	Err      error

	unread []int // indexes of tasks whose messages the reply does not hold
}

// InOrder as Fetch.MaxActive allows one active task, and none while another waits for its retry.
// Forward needs to know these queues, too. The number is unlikely to be used by accident.
const InOrder = math.MinInt32

// capped reports whether a MaxActive is a limit.
func capped(maxActive int) bool { return maxActive > 0 || maxActive == InOrder }

// Fetched is a fetched task.
type Fetched struct {
	ID      string
	Message []byte // encoded; may be malformed

	// Wait is how long the task was pending. It is negative if unknown, or if Fetch.Waits is not
	// set.
	Wait time.Duration
}

func (b *Broker) fetchCall(f *Fetch) *script.Call {
	q := b.Queue(f.Queue)
	if f.Partitions != nil {
		return f.partitionedFetch(q)
	}
	c := script.NewCall(fetchScript, 6+9).Key(q.Active, q.Lease, q.Pending, q.Paused, q.Marker, q.Retry)
	c.Once = true
	return f.addTake(c, q)
}

// addTake adds the arguments of lib/take.lua.
func (f *Fetch) addTake(c *script.Call, q *script.Queue) *script.Call {
	most := max(f.MaxActive, 0)
	if f.MaxActive == InOrder {
		most = -1
	}
	return c.Arg(q.TaskPrefix, min(f.N, script.MaxBatch), script.Seconds(f.Lease), f.Token, f.NotAfter, most,
		script.Flag(f.Mark), script.Flag(f.Waits), script.Flag(q.LargeMessages.Load()))
}

func (f *Fetch) read(c *script.Call) {
	r := c.Read()
	f.Code, f.Now = r.Code(), r.Int()
	remain := r.Int()
	f.More, f.Unsorted = remain > 0, remain == 2
	if f.Partitions != nil {
		f.Due, f.Kept = r.Int(), int(r.Int())
	}
	if r.More() {
		f.Tasks = make([]Fetched, 0, r.Len()/2)
	}
	for r.More() {
		task := Fetched{ID: r.Text(), Wait: -time.Microsecond}
		message := r.Value()
		if f.Waits {
			task.Wait = time.Duration(r.Int()) * time.Microsecond
		}
		switch message := message.(type) {
		case string:
			task.Message = []byte(message)
		case int64:
			f.unread = append(f.unread, len(f.Tasks))
		case nil:
			f.Dropped = append(f.Dropped, task.ID)
			continue
		default:
			r.Fail()
		}
		f.Tasks = append(f.Tasks, task)
	}
	if err := r.Err(); err != nil {
		f.fail(err)
	}
}

func (f *Fetch) fail(err error) {
	f.Code, f.Now, f.More, f.Unsorted, f.Due, f.Kept, f.Tasks, f.Dropped, f.unread, f.Err = script.CodeOK, 0, false, false, 0, 0, nil, nil, nil, err
}

// largeMessage is the size in bytes above which lib/take.lua leaves a message to the caller.
const largeMessage = 64 << 10

// readLarge reads the messages that the fetches have left out. A message that passes through Lua is
// copied three times, so a queue whose last fetch returned a large one switches to this. If one
// cannot be read, the reply of its fetch counts as unknown: the tasks are active under its token.
func (b *Broker) readLarge(ctx context.Context, fetches []*Fetch) {
	var pipe redis.Pipeliner
	for _, f := range fetches {
		if len(f.Tasks) == 0 {
			continue
		}
		q := b.Queue(f.Queue)
		large := len(f.unread) > 0 || slices.ContainsFunc(f.Tasks, func(t Fetched) bool { return len(t.Message) > largeMessage })
		if q.LargeMessages.Load() != large {
			q.LargeMessages.Store(large)
		}
		if len(f.unread) > 0 && pipe == nil {
			pipe = b.Client().Pipeline()
		}
		for _, i := range f.unread {
			pipe.HMGet(ctx, q.Keys.Task(f.Tasks[i].ID), wire.FieldMessage)
		}
	}
	if pipe == nil {
		return
	}
	cmds, _ := pipe.Exec(ctx) // the commands have the errors
	for _, f := range fetches {
		read := cmds[:len(f.unread)]
		cmds = cmds[len(f.unread):]
		for j, i := range f.unread {
			values, err := read[j].(*redis.SliceCmd).Result()
			message, ok := "", false
			if len(values) == 1 {
				message, ok = values[0].(string)
			}
			if !ok {
				f.fail(fmt.Errorf("rdb: message of task %q not read: %v", f.Tasks[i].ID, err)) //nolint:errorlint // Redis has not refused the fetch.
				break
			}
			f.Tasks[i].Message = []byte(message)
		}
	}
}

// Reclaim returns the tasks of a fetch with an unknown reply to pending. It may need several round
// trips.
type Reclaim struct {
	Queue string
	Token string

	Cursor   string // "0" at the start and at the end
	Returned int    // number of tasks returned in all round trips
	Err      error
}

// AtStart reports whether the next round trip starts a scan of the leases.
func (u *Reclaim) AtStart() bool { return u.Cursor == "" || u.Cursor == "0" }

// Done reports whether all leases have been scanned.
func (u *Reclaim) Done() bool { return u.Err == nil && u.Cursor == "0" }

func (b *Broker) reclaimCall(u *Reclaim) *script.Call {
	q := b.Queue(u.Queue)
	if u.Cursor == "" {
		u.Cursor = "0"
	}
	c := script.NewCall(reclaimScript, 4+3).
		Key(q.Pending, q.Active, q.Lease, q.Marker).
		Arg(q.TaskPrefix, u.Token, u.Cursor)
	c.Once = true
	return c
}

func (u *Reclaim) read(c *script.Call) {
	r := c.Read()
	cursor, n := r.Text(), r.Int()
	if u.Err = r.Err(); u.Err == nil {
		u.Cursor = cursor
		u.Returned += int(n)
	}
}
