package inspect

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Walk iterates over all tasks of a queue in one state while tasks enter and leave it. A task that
// stays in the state during the walk is returned exactly once. A Walk is not safe for concurrent
// use.
type Walk struct {
	walker
	of   uint64 // of its cursors
	done bool
}

// walker walks one kind of collection.
type walker interface {
	// next scans up to n more entries and returns their number.
	next(ctx context.Context, n int) (tasks []*TaskInfo, scanned int, err error)

	// from lets the walk continue at a cursor.
	from(p *Cursor)

	// position is Walk.Cursor.
	position(t *TaskInfo) (p *Cursor, more bool)
}

// Walk starts a walk at a cursor or, if that is nil, at the beginning. group is used only for
// aggregating tasks; "" means all groups. Aggregating tasks include staged ones. It returns
// ErrCursor if the cursor is of another kind of walk.
//
// Pending and active tasks are in the order of their fetches; scheduled tasks, tasks in retry and
// aggregating tasks (by group) by time; archived and completed tasks newest first. reverse reverses
// the order. Tasks whose score changes may be missed or returned twice. For pending, active and
// aggregating tasks it uses 10 to 20 bytes of memory each.
//
// A task that is in the state from the first of several walks, each from the cursor of the one
// before, to the last is returned exactly once. For pending and active tasks there are exceptions.
// If all eight tasks on either side of the cursor are gone, or the list has moved by more than
// 9,000, the cursor is lost. Then a walk from the right continues at the start of the list, and a
// walk from the left (reverse) at the stored index. If tasks are only added, or only removed, it is
// found in any case. Among 1,000 active tasks and more, a task that has moved (see listWalk) may be
// missed or returned twice.
func (b *Inspector) Walk(queue string, state wire.State, group string, reverse bool, from *Cursor) (*Walk, error) {
	q := b.Queue(queue)
	key, order, err := listedIn(q, state, group)
	if err != nil {
		return nil, err
	}
	w := &Walk{of: walkHash(queue, state, group, reverse)}
	switch {
	case order == readList:
		w.walker = newListWalk(b, q, key, state, reverse)
	case state == wire.StateAggregating:
		w.walker = &groupWalk{b: b, q: q, only: group, direction: directionOf(order, reverse)}
	default:
		w.walker = &sortedWalk{b: b, q: q, key: key, direction: directionOf(order, reverse), state: state}
	}
	if from != nil {
		if from.Of != w.of {
			return nil, ErrCursor
		}
		w.from(from)
	}
	return w, nil
}

// directionOf returns the reading direction of a sorted set, reversed if reverse is set.
func directionOf(order string, reverse bool) string {
	switch {
	case !reverse:
		return order
	case order == readRising:
		return readFalling
	default:
		return readRising
	}
}

// Next scans up to n more entries (at most 200). It returns the tasks among them, and the number of
// entries scanned: 0 at the end of the walk. It may be called again after an error.
func (w *Walk) Next(ctx context.Context, n int) (tasks []*TaskInfo, scanned int, err error) {
	if w.done || n <= 0 {
		return nil, 0, nil
	}
	tasks, scanned, err = w.next(ctx, min(n, maxScan))
	w.done = scanned == 0 && err == nil
	return tasks, scanned, err
}

// sortedWalk walks a sorted set. It stores the score and ID of the last entry, and continues behind
// them.
type sortedWalk struct {
	b         *Inspector
	q         *script.Queue
	key       string
	direction string
	state     wire.State
	group     string // of tasks whose hash does not have one
	staged    bool   // with the aggregation sets of the group

	score, id string
	end       bool
}

func (w *sortedWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	if w.end {
		return nil, 0, nil
	}
	c := script.NewCall(listScript, 3+8).Key(w.key, w.q.Lease, w.q.AggregationSets).
		Arg(w.q.TaskPrefix, w.direction, 0, w.score, w.id, n, maxScanBytes, script.Flag(w.staged))
	page, err := w.b.readPage(ctx, c, w.q, w.state, w.group)
	if err != nil {
		return nil, 0, err
	}
	if page.scanned > 0 {
		w.score, w.id = page.lastScore, page.lastID
	}
	w.end = page.end
	return page.tasks, page.scanned, nil
}

// groupWalk walks the groups one by one.
type groupWalk struct {
	b         *Inspector
	q         *script.Queue
	only      string // the one group; "" = all
	direction string

	named  bool
	names  []string    // of the groups that are left
	walk   *sortedWalk // over the first of them, if it has begun
	seen   *seen       // of that group
	last   *sortedWalk // the walk that scanned the last entry
	resume *Cursor     // where to continue, if set before the names are read
}

func (w *groupWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	if !w.named {
		w.names = []string{w.only}
		if w.only == "" {
			names, sets, err := w.b.groupNames(ctx, w.q)
			if err != nil {
				return nil, 0, w.b.explain(ctx, w.q, err)
			}
			for _, set := range sets {
				name, _ := wire.GroupOf(w.q.Keys, set)
				names = append(names, name)
			}
			w.names = names
		}
		w.named = true
		w.skip()
	}
	for len(w.names) > 0 {
		if w.walk == nil {
			w.begin()
		}
		tasks, scanned, err := w.walk.next(ctx, n)
		if err != nil {
			return nil, 0, err
		}
		// A process of another library may change a task's score when it stages it.
		tasks = slices.DeleteFunc(tasks, func(t *TaskInfo) bool { return !w.seen.add(t.ID) })
		if scanned > 0 {
			w.last = w.walk
		}
		if w.walk.end {
			w.names, w.walk = w.names[1:], nil
		}
		if scanned > 0 {
			return tasks, scanned, nil
		}
	}
	return nil, 0, nil
}

// begin begins the walk over the first of the groups left.
func (w *groupWalk) begin() {
	name := w.names[0]
	w.seen = newSeen()
	w.walk = &sortedWalk{
		b: w.b, q: w.q, key: w.q.Keys.Group(name), direction: w.direction, state: wire.StateAggregating, group: name, staged: true,
	}
}

// skip keeps the groups at and after the cursor.
func (w *groupWalk) skip() {
	order := strings.Compare
	if w.direction == readFalling {
		order = func(a, b string) int { return strings.Compare(b, a) }
	}
	slices.SortFunc(w.names, order)
	w.names = slices.Compact(w.names)
	if w.resume == nil {
		return
	}
	n, found := slices.BinarySearchFunc(w.names, string(w.resume.Group), order)
	if w.names = w.names[n:]; found {
		w.begin()
		w.walk.from(w.resume)
	}
}

// seen is a set of 64-bit hashes of IDs or entries. Among a million, two collide once in 37 million
// walks. Open addressing takes half of the memory of a map.
type seen struct {
	seed  maphash.Seed
	slots []uint64 // a power of two of them; 0 is a free one
	n     int      // taken ones
}

const minSlots = 64

func newSeen() *seen { return &seen{seed: maphash.MakeSeed(), slots: make([]uint64, minSlots)} }

// find returns the hash of an ID, and its slot or a free slot for it.
func (s *seen) find(id string) (hash, slot uint64) {
	hash = max(maphash.String(s.seed, id), 1)
	return hash, s.slotOf(hash)
}

func (s *seen) slotOf(hash uint64) (slot uint64) {
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
				s.slots[s.slotOf(h)] = h
			}
		}
	}
	return true
}

// maxNames bounds the names of groups, and the keys of aggregation sets, that are read in one call.
const maxNames = 5000

// groupNames returns the names of the groups with tasks that wait, and the keys of the aggregation
// sets, possibly some twice: at one moment, or page by page if there are more than 5,000.
func (b *Inspector) groupNames(ctx context.Context, q *script.Queue) (names, sets []string, err error) {
	scan := func(c redis.Cmdable) (groups, sets *redis.ScanCmd) {
		return c.SScan(ctx, q.Keys.Groups(), 0, "", maxNames), c.ZScan(ctx, q.Keys.AggregationSets(), 0, "", maxNames)
	}
	var first, second *redis.ScanCmd
	_, err = b.Client().TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		first, second = scan(pipe)
		return nil
	})
	names, more := first.Val()
	scored, others := second.Val()
	if err == nil && (more != 0 || others != 0) {
		names, scored = nil, nil
		read := func(scan *redis.ScanCmd, to *[]string) {
			it := scan.Iterator()
			for it.Next(ctx) {
				*to = append(*to, it.Val())
			}
			err = cmp.Or(err, it.Err())
		}
		// A group all of whose tasks are staged is not in the first list, and one whose tasks
		// returned since not in the second.
		for range 2 {
			first, second = scan(b.Client())
			read(first, &names)
			read(second, &scored)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inspect: listing groups: %w", err)
	}
	for i := 0; i < len(scored); i += 2 { // each with its score
		if _, ok := wire.GroupOf(q.Keys, scored[i]); ok {
			sets = append(sets, scored[i])
		}
	}
	return names, sets, nil
}
