package rdb

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Durations as script arguments: the TTL of the daily counters, and the default age of an archive.
var (
	statsSeconds   any = int64(script.StatsTTL / time.Second)
	archiveSeconds any = wire.DefaultArchiveLimits.Seconds()
)

// Outcome is the outcome of an attempt.
type Outcome int

// The outcomes.
const (
	Done     Outcome = iota // succeeded, not retained
	Complete                // succeeded, retained for Retention
	Retry                   // failed, retried after Delay
	Defer                   // retried after Delay; the attempt does not count
	Archive                 // failed, not retried
	Requeue                 // returned unfinished; the attempt does not count, unless Failed
	Revoke                  // deleted at the request of the handler
	Expire                  // deleted, because it expired before its first attempt
	Discard                 // failed, deleted
	Lost                    // never sent: the lease was lost before
)

// String returns the outcome's name for logs and observers, who see only one kind of success and
// one of deletion by request.
func (o Outcome) String() string {
	return [...]string{
		"succeeded", "succeeded", "retried", "deferred", "archived", "requeued", "revoked", "expired", "revoked", "lease_lost",
	}[o]
}

// Settlement settles one attempt, and holds the result.
type Settlement struct {
	Queue   string
	ID      string
	Token   string // of the fetch
	Outcome Outcome

	// MaxActive is the limit of the queue, as in Fetch. In a queue with a limit, a round trip that
	// settles tasks and does not fetch from the queue sets the marker if tasks are pending.
	MaxActive int

	Message   []byte        // encoded; Complete, Retry, Defer, Archive, Requeue (nil: unchanged)
	Result    []byte        // nil: unchanged; ignored if the task is deleted
	Lock      string        // of the task, to release with Complete or a deletion if it holds it; empty: none
	Delay     time.Duration // Retry, Defer; see AtOnce
	Retention int64         // Complete, seconds
	Failed    bool          // Requeue: the attempt counts as processed and failed
	Extra     *Extra        // values that few settlements have; ignored if the task is deleted
	Member    *Member       // of a flow, or awaited; nil: neither

	Code script.Code
	Err  error // the error of the call; it may have been executed
}

// Extra are values of a settlement that few tasks have.
type Extra struct {
	Attempt  []byte // a wire.Attempt to add to the log of the task; nil: none
	Number   int    // of the attempt
	LogSize  int    // maximum number of entries of the log
	Progress []byte // a wire.Progress; nil: unchanged
	Await    bool   // Defer: then let the task sleep until the signal that it awaits
}

// Member is for tasks whose end concerns others: the node of a flow, clients that wait, or both.
type Member struct {
	Part   string // name of the part that the task is a member of; "": none
	Only   bool   // the result of the task is that of its node
	Client string // the client that waits; "-": any, "": none
}

// MemberOf returns the Member of a task, nil if there is none.
func MemberOf(m *wire.TaskMessage) *Member {
	if len(m.Headers) == 0 {
		return nil
	}
	e := m.Ext()
	if e == "" {
		return nil
	}
	if last := lastMember.Load(); last != nil && last.ext == e {
		return last.member
	}
	in := &Member{Part: m.FlowPartName(), Only: e.Get(wire.ExtFlowResult) != "", Client: e.Get(wire.ExtAwait)}
	if in.Part == "" && in.Client == "" {
		in = nil
	}
	lastMember.Store(&parsedMember{e, in})
	return in
}

// lastMember is the last Member that was parsed: often, the next task is of the same batch.
var lastMember atomic.Pointer[parsedMember]

type parsedMember struct {
	ext    wire.Ext
	member *Member
}

// size returns the bytes of user data that a settlement moves.
func (s *Settlement) size() int {
	n := len(s.Message) + len(s.Result)
	if e := s.Extra; e != nil {
		n += len(e.Attempt) + len(e.Progress)
	}
	return n
}

// Deletes reports whether the outcome deletes the task.
func (s *Settlement) Deletes() bool {
	return s.Outcome == Done || s.Outcome == Revoke || s.Outcome == Expire || s.Outcome == Discard
}

// script returns the script that settles the attempt: done.lua if it can, and for members a variant
// of done.lua or settle.lua.
func (s *Settlement) script() *script.Script {
	switch {
	case s.Member != nil && s.Outcome == Done && s.Member.Client == "" && !s.Member.Only && s.Lock == "":
		return doneMembersScript
	case s.Member != nil && (s.Deletes() || s.Outcome == Complete || s.Outcome == Archive):
		return settleMembersScript
	case s.Deletes() && s.Outcome != Discard:
		return doneScript
	default:
		return settleScript
	}
}

// failed reports whether the attempt counts as failed.
func (s *Settlement) failed() bool {
	return s.Outcome == Retry || s.Outcome == Archive || s.Outcome == Discard || s.Failed
}

// AtOnce reports whether the task becomes pending again with the settlement. An attempt that does
// not count always waits for its retry: nothing else would limit how often the task runs.
func (s *Settlement) AtOnce() bool {
	return s.Outcome == Requeue || s.Outcome == Retry && s.Delay <= 0
}

// settleBatch is one call that settles attempts of a queue.
type settleBatch struct {
	queue    *script.Queue
	script   *script.Script
	recovery string // as in settle.lua
	mark     bool   // set the marker if tasks are pending
	items    []*Settlement
	call     *script.Call
}

// short reports whether a short form of settle.lua settles the batch.
func (s *settleBatch) short() bool { return s.script == doneScript || s.script == doneMembersScript }

func (s *settleBatch) read() {
	codes := s.call.ReadCodes(len(s.items))
	err := codes.Err()
	for _, item := range s.items {
		item.Code, item.Err = codes.Code(), err
	}
}

// settleBatches splits settlements by queue into calls of a bounded size.
func (b *Broker) settleBatches(items []*Settlement) []*settleBatch {
	if len(items) == 0 {
		return nil
	}
	type target struct {
		queue  string
		script *script.Script
	}
	open := make(map[target]*settleBatch, 1)
	bytes := make(map[*settleBatch]int)
	var batches []*settleBatch
	var last *settleBatch // usually also the next one's
	for _, s := range items {
		by := s.script()
		in := last
		if in == nil || in.queue.Keys.Name != s.Queue || in.script != by {
			in = open[target{s.Queue, by}]
		}
		if in == nil || len(in.items) == script.MaxBatch || bytes[in]+s.size() > script.MaxBatchBytes {
			in = &settleBatch{
				queue: b.Queue(s.Queue), script: by, mark: capped(s.MaxActive), items: make([]*Settlement, 0, min(len(items), script.MaxBatch)),
			}
			open[target{s.Queue, by}] = in
			batches = append(batches, in)
		}
		in.items = append(in.items, s)
		if n := s.size(); n > 0 {
			bytes[in] += n
		}
		last = in
	}
	return batches
}

// settleCall returns the call of a batch. go-redis must not retry it: the caller repeats it, and
// interprets the reply to a repeated call.
func (b *Broker) settleCall(in *settleBatch) *script.Call {
	q := in.queue
	day := q.Today(time.Now())
	in.sort()
	var c *script.Call
	if in.short() {
		c = script.NewCall(in.script, 6+4+len(in.items)).
			Key(q.Active, q.Lease, q.Processed, day.Processed, q.Pending, q.Marker)
		in.addTasks(c)
		in.addFinish(c, script.Flag(in.mark))
	} else {
		c = script.NewCall(in.script, 11+6+2*len(in.items)).Key(q.Active, q.Lease,
			q.Processed, day.Processed, q.Failed, day.Failed, q.Pending, q.Marker, q.Retry, q.Completed, q.Archived)
		in.addTasks(c)
		archive, age := b.ArchiveLimits(q.Keys.Name), archiveSeconds
		if archive.Age != wire.DefaultArchiveLimits.Age {
			age = archive.Seconds()
		}
		c.Arg(statsSeconds, q.TaskPrefix, age, in.recovery, script.Flag(in.mark), in.runs(archive.Tasks, b.MillisecondTimes))
		in.addValues(c)
	}
	c.Once = true
	return c
}

// sort groups tasks with equal arguments. Those that become pending keep their order.
func (s *settleBatch) sort() {
	slices.SortStableFunc(s.items, func(a, b *Settlement) int {
		if by := cmp.Compare(a.Outcome, b.Outcome); by != 0 || a.Outcome == Requeue || a.Outcome == Retry {
			return by
		}
		if by := strings.Compare(a.Token, b.Token); by != 0 || a.Member == nil || b.Member == nil {
			return by
		}
		return strings.Compare(a.Member.Part, b.Member.Part)
	})
}

func (s *settleBatch) addTasks(c *script.Call) {
	for _, item := range s.items {
		c.Key(s.queue.Keys.Task(item.ID))
	}
}

// addFinish adds the arguments of lib/finish.lua, and between them others.
func (s *settleBatch) addFinish(c *script.Call, others ...any) {
	var tokens []byte
	for first, n := 0, 0; first < len(s.items); first += n {
		token := s.items[first].Token
		n = runLength(s.items[first:], func(item *Settlement) bool { return item.Token == token })
		tokens = append(append(tokens, token...), '*')
		tokens = append(strconv.AppendInt(tokens, int64(n), 10), ' ')
	}
	c.Arg(statsSeconds, s.queue.TaskPrefixLen, tokens).Arg(others...)
	if s.script == doneMembersScript {
		for first, n := 0, 0; first < len(s.items); first += n {
			part := s.items[first].Member.Part
			n = runLength(s.items[first:], func(item *Settlement) bool { return item.Member.Part == part })
			c.Arg(n, part)
		}
		return
	}
	for i, item := range s.items {
		if lock := s.queue.Lock(item.Lock); lock != "" {
			c.Arg(i+1, lock)
		}
	}
}

// runs encodes what settle.lua does with each task.
func (s *settleBatch) runs(archiveSize int, millis bool) []byte {
	var runs []byte
	for first, n := 0, 0; first < len(s.items); first += n {
		is := s.items[first]
		n = runLength(s.items[first:], func(item *Settlement) bool {
			return item.Outcome == is.Outcome && item.Token == is.Token && item.failed() == is.failed() &&
				item.Delay == is.Delay && item.Retention == is.Retention
		})
		verb, number := is.verb(archiveSize, millis)
		runs = fmt.Appendf(runs, "%s %d %d %d %d %s", verb, max(number, 0), script.Flag(is.failed()), n, len(is.Token), is.Token)
	}
	return runs
}

// runLength returns how many of the first items are equal.
func runLength(items []*Settlement, equal func(*Settlement) bool) int {
	for n, item := range items {
		if !equal(item) {
			return n
		}
	}
	return len(items)
}

// verb returns the outcome and its number as settle.lua takes them.
func (s *Settlement) verb(archiveSize int, millis bool) (verb string, number int64) {
	switch s.Outcome {
	case Complete:
		return "complete", s.Retention
	case Retry, Defer:
		switch {
		case !s.AtOnce() && millis:
			return "delay", script.Ceil(s.Delay, time.Millisecond)
		case !s.AtOnce():
			return "retry", script.Ceil(s.Delay, time.Millisecond)
		case s.MaxActive == InOrder:
			return "next", 0
		default:
			return "again", 0
		}
	case Archive:
		return "archive", int64(archiveSize)
	case Requeue:
		return "requeue", 0
	case Done:
		return "done", 0
	case Revoke, Expire:
		return "drop", 0
	case Discard:
		return "delete", 0
	case Lost:
	}
	panic("rdb: unknown outcome")
}

// addValues adds the messages, and what only some tasks have.
func (s *settleBatch) addValues(c *script.Call) {
	for _, item := range s.items {
		if item.Deletes() {
			c.Arg("")
		} else {
			c.Arg(item.Message)
		}
	}
	for i, item := range s.items {
		if item.Result != nil && (!item.Deletes() || s.script == settleMembersScript) {
			c.Arg(i+1, "result", item.Result)
		}
		if lock := s.queue.Lock(item.Lock); lock != "" && item.Outcome != Archive {
			c.Arg(i+1, "lock", lock)
		}
		if item.Extra != nil && !item.Deletes() {
			item.Extra.add(c, i+1)
		}
		if item.Member != nil && s.script == settleMembersScript {
			item.Member.add(c, i+1)
		}
	}
}

// add adds the values of the task with the number i.
func (m *Member) add(c *script.Call, i int) {
	if m.Part != "" {
		c.Arg(i, "flow", strconv.Itoa(script.Flag(m.Only))+m.Part)
	}
	if m.Client != "" {
		c.Arg(i, "await", m.Client)
	}
}

// logField returns wire.LogField as an argument, without an allocation.
func logField(number int) any { return logFields[uint(number)%wire.MaxLog] }

var logFields = func() (fields [wire.MaxLog]any) {
	for i := range fields {
		fields[i] = wire.LogField(i)
	}
	return fields
}()

// add adds the values of the task with the number i.
func (e *Extra) add(c *script.Call, i int) {
	if e.Attempt != nil {
		c.Arg(i, logField(e.Number), e.Attempt)
		if e.Number >= e.LogSize && e.LogSize < wire.MaxLog {
			c.Arg(i, "drop", logField(e.Number-e.LogSize))
		}
	}
	if e.Progress != nil {
		c.Arg(i, "progress", e.Progress)
	}
}
