package rdb

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Walk goes through all tasks of a queue in one state, while others come and go. A task that is in the state for as long as the walk
// takes is met exactly once. It is not safe for concurrent use.
type Walk struct {
	next func(ctx context.Context, n int) (tasks []*TaskInfo, looked int, err error)
	done bool

	from  func(*Place)
	place func(*TaskInfo) (p *Place, more bool)
}

// way is how a walk goes through one kind of collection.
type way interface {
	next(ctx context.Context, n int) (tasks []*TaskInfo, looked int, err error)
	from(p *Place)
	place(t *TaskInfo) (p *Place, more bool)
}

// Walk starts a walk. A group matters only where the state is aggregating: "" stands for all groups. Aggregating tasks are met whether
// they are staged or not.
//
// Scheduled, retry and aggregating tasks (these within their group) are met by their time; archived and completed ones by their
// time, the latest first; pending and active ones the latest first too. Whose score is changed meanwhile may be missed, or met twice.
// Of pending, active and aggregating tasks it keeps a hash in memory: 10 to 20 bytes each.
func (b *Broker) Walk(queue string, state wire.State, group string) (*Walk, error) {
	q := b.queues.get(queue)
	key, order, err := q.collection(state, group)
	if err != nil {
		return nil, err
	}
	var through way
	switch {
	case order == readList:
		through = &listWalk{b: b, q: q, key: key, state: state, seen: newSeen(), step: listWindow}
	case state == wire.StateAggregating:
		through = &groupWalk{b: b, q: q, only: group}
	default:
		through = &sortedWalk{b: b, q: q, key: key, way: order, state: state}
	}
	w := &Walk{from: through.from, place: through.place}
	w.next = func(ctx context.Context, n int) ([]*TaskInfo, int, error) {
		tasks, looked, err := through.next(ctx, n)
		if looked == 0 && err == nil {
			w.done = true
		}
		return tasks, looked, err
	}
	return w, nil
}

// Next looks at up to n more entries (and 200), and returns the tasks among them, and how many entries it looked at: 0 where the walk
// has come to its end. After an error it may be called again.
func (w *Walk) Next(ctx context.Context, n int) (tasks []*TaskInfo, looked int, err error) {
	if w.done || n <= 0 {
		return nil, 0, nil
	}
	return w.next(ctx, min(n, maxLook))
}

// sortedWalk goes through a sorted set. It remembers score and ID of the last entry that it met: the rest is what comes after these.
type sortedWalk struct {
	b     *Broker
	q     *queue
	key   any
	way   string
	state wire.State

	score, id string
	end       bool
}

func (w *sortedWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	if w.end {
		return nil, 0, nil
	}
	c := newCall(listAfterScript, 1+7).key(w.key).
		arg(w.q.taskPrefix, w.state.String(), w.way, w.score, w.id, n, maxLookBytes)
	w.b.run(ctx, c)
	page, err := c.tasks(w.q, w.state, "")
	if err != nil {
		return nil, 0, w.b.explain(ctx, w.q, err)
	}
	if page.looked > 0 {
		w.score, w.id = page.lastScore, page.lastID
	}
	w.end = page.end
	return page.tasks, page.looked, nil
}

// seen is a set of IDs, of each of which it keeps a hash of 64 bits: among a million, two have the same once in 37 million walks. Open
// addressing takes half of the memory that a map would.
type seen struct {
	seed  maphash.Seed
	slots []uint64 // a power of two of them; 0 is a free one
	n     int      // taken ones
}

const minSlots = 64

func newSeen() *seen { return &seen{seed: maphash.MakeSeed(), slots: make([]uint64, minSlots)} }

// find returns the hash of an ID, and the slot that has it, or is free for it.
func (s *seen) find(id string) (hash, slot uint64) {
	hash = max(maphash.String(s.seed, id), 1)
	return hash, s.place(hash)
}

func (s *seen) place(hash uint64) (slot uint64) {
	last := uint64(len(s.slots) - 1)
	for slot = hash & last; s.slots[slot] != 0 && s.slots[slot] != hash; slot = (slot + 1) & last {
	}
	return slot
}

func (s *seen) has(id string) bool {
	_, slot := s.find(id)
	return s.slots[slot] != 0
}

// add reports whether the ID is new.
func (s *seen) add(id string) bool {
	hash, slot := s.find(id)
	if s.slots[slot] != 0 {
		return false
	}
	s.slots[slot] = hash
	if s.n++; s.n > len(s.slots)/4*3 {
		old := s.slots
		s.slots = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.slots[s.place(h)] = h
			}
		}
	}
	return true
}

// listWindow is how many IDs of a list are read at a time, listOverlap how many of them again the next time.
const (
	listWindow  = 500
	listOverlap = 100
)

// listWalk goes through a list from the left, where IDs are added, window by window. An entry has no place of its own: what is added
// on the left moves all others to the right, and what is removed before them moves them to the left.
//
// Entries never change their order, and all that is left of an entry that was seen was seen too, or was added since. So a window is
// good if it starts with the list, or if it has an ID that was seen: what is new in it, wherever it is, follows what was seen without a
// gap. Where there is no such ID, more was removed than the windows overlap, and the one to read is further left.
//
// An ID that was removed and came back is no exception. If it came in on the left, all that is older is on its right. If it was taken
// from the right and given back there, all that was right of it had been taken before, and does not count.
type listWalk struct {
	b     *Broker
	q     *queue
	key   string
	state wire.State

	seen  *seen
	start int      // of the next window
	step  int      // to the left, where the next window is no good
	ids   []string // seen, not looked at yet
	end   bool

	window []string // the one that was read last
	base   int      // its place in the list
	last   string   // the last ID that was looked at
	placed bool     // it is to tell its places, so it asks for
	length int      // of the list, when the window was read
	resume *Place   // to go on from, if it is not nil
}

func (w *listWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	for len(w.ids) == 0 && !w.end {
		if err := w.read(ctx); err != nil {
			return nil, 0, err
		}
	}
	if len(w.ids) == 0 {
		return nil, 0, nil
	}
	ids := w.ids[:min(n, len(w.ids))]
	c := newCall(listKnownScript, 1+2+2*len(ids)).key(w.q.lease)
	for _, id := range ids {
		c.key(w.q.keys.Task(id))
	}
	c.arg(w.state.String(), maxLookBytes)
	for _, id := range ids {
		c.arg(id)
	}
	w.b.run(ctx, c)
	page, err := c.tasks(w.q, w.state, "")
	if err != nil {
		return nil, 0, w.b.explain(ctx, w.q, err)
	}
	if page.looked > 0 {
		w.last = ids[page.looked-1]
	}
	w.ids = w.ids[page.looked:]
	return page.tasks, page.looked, nil
}

// read reads one window.
func (w *listWalk) read(ctx context.Context) error {
	if w.placed && w.window != nil && w.resume == nil {
		w.resume = w.placeAt(len(w.window)) // it does not know what is on the left of where it began
	}
	if w.resume != nil {
		return w.find(ctx)
	}
	if err := w.load(ctx, w.start); err != nil {
		return err
	}
	good := w.start == 0
	for _, id := range w.window {
		good = good || w.seen.has(id)
	}
	if !good {
		w.start = max(0, w.start-w.step)
		w.step *= 2
		return nil
	}
	w.step = listWindow
	for _, id := range w.window {
		if w.seen.add(id) {
			w.ids = append(w.ids, id)
		}
	}
	w.end = len(w.window) < listWindow
	w.start += listWindow - listOverlap
	return nil
}

// groupWalk goes through the groups one by one.
type groupWalk struct {
	b    *Broker
	q    *queue
	only string // the one group; "" = all

	named bool
	names []string // of the groups that are left

	seen      *seen // of the current group
	score, id string
	begun     bool

	last   string // the group of the last entry that was looked at
	resume string // the group to go on in, if it has begun before there are names
}

func (w *groupWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	if !w.named {
		w.names = []string{w.only}
		if w.only == "" {
			var err error
			if w.names, err = w.b.groupNames(ctx, w.q); err != nil {
				return nil, 0, w.b.explain(ctx, w.q, err)
			}
		}
		w.named = true
		w.skip()
	}
	for len(w.names) > 0 {
		if !w.begun {
			w.begun, w.seen, w.score, w.id = true, newSeen(), "", ""
		}
		group := w.q.keys.Group(w.names[0])
		c := newCall(listGroupedScript, 2+5).key(group, w.q.aggregationSets).
			arg(w.q.taskPrefix, w.score, w.id, n, maxLookBytes)
		w.b.run(ctx, c)
		page, err := c.tasks(w.q, wire.StateAggregating, w.names[0])
		if err != nil {
			return nil, 0, w.b.explain(ctx, w.q, err, group)
		}
		if page.looked > 0 {
			w.score, w.id, w.last = page.lastScore, page.lastID, w.names[0]
		}
		if page.end {
			w.names, w.begun = w.names[1:], false
		}
		// A process of another library may change a task's score when it stages it.
		fresh := page.tasks[:0]
		for _, t := range page.tasks {
			if w.seen.add(t.ID) {
				fresh = append(fresh, t)
			}
		}
		if page.looked > 0 {
			return fresh, page.looked, nil
		}
	}
	return nil, 0, nil
}

// maxNames bounds the names of groups, and the keys of aggregation sets, that are read in one call.
const maxNames = 5000

// groupNames lists the names of the groups that have tasks, staged ones too: at one moment, or page by page if there are more than
// 5,000.
func (b *Broker) groupNames(ctx context.Context, q *queue) ([]string, error) {
	var groups, sets *redis.IntCmd
	_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		groups, sets = pipe.SCard(ctx, q.keys.Groups()), pipe.ZCard(ctx, q.keys.AggregationSets())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rdb: listing groups: %w", err)
	}
	known := make(map[string]bool)
	var names []string
	add := func(name string) {
		if !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	// The key of a set is that of its group, a colon, and a name without one.
	addOf := func(set string) {
		if name, ok := strings.CutPrefix(set, q.keys.GroupPrefix()); ok {
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				add(name[:i])
			}
		}
	}
	if groups.Val() <= maxNames && sets.Val() <= maxNames {
		var members, keys *redis.StringSliceCmd
		_, err = b.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			members = pipe.SMembers(ctx, q.keys.Groups())
			keys = pipe.ZRange(ctx, q.keys.AggregationSets(), 0, maxNames-1)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("rdb: listing groups: %w", err)
		}
		for _, name := range members.Val() {
			add(name)
		}
		for _, set := range keys.Val() {
			addOf(set)
		}
		return names, nil
	}
	// A group all of whose tasks are staged is not in the first list, and one whose tasks fell back since not in the second.
	for _, again := range []bool{false, true} {
		if err := eachName(ctx, b.client, q.keys.Groups(), add); err != nil {
			return nil, fmt.Errorf("rdb: listing groups: %w", err)
		}
		if !again {
			err := eachMember(ctx, b.client, q.keys.AggregationSets(), func(set string, _ float64) { addOf(set) })
			if err != nil {
				return nil, fmt.Errorf("rdb: listing aggregation sets: %w", err)
			}
		}
	}
	return names, nil
}
