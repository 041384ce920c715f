package doctor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// idSet is the set of IDs of a list, with eight bytes per ID. has returns a false positive once in
// 2⁶⁴ divided by their number.
type idSet struct {
	seed   maphash.Seed
	hashes []uint64 // sorted
}

func (s idSet) has(id string) bool {
	_, ok := slices.BinarySearch(s.hashes, maphash.String(s.seed, id))
	return ok
}

const (
	// walkOverlap is the number of IDs that consecutive pages share, so that none is missed if the
	// list shrinks at its head; walkRun is how many of them must match to prove that.
	walkOverlap = 100
	walkRun     = 8

	// defaultMaxSearch is the number of list entries that one script call may scan, about 2 ms on a
	// slow machine. A longer list is still scanned once.
	defaultMaxSearch = 50_000

	// twiceLimit limits the IDs of a list that are checked for duplicates.
	twiceLimit = 1000
)

// collection is a key with the IDs of tasks in a state, and of a group unless that is empty.
type collection struct {
	key   string
	state wire.State
	group string
}

// reference is a key that contains the ID of a task: a collection or a lock.
type reference struct{ key, id string }

// walk reads a list in pages from its head to its end, and calls f with the new IDs of each page
// and their first index. f returns by how many entries it shortened the list. The walk is complete
// if it has certainly seen all entries that were in the list during the whole walk, despite changes
// at both ends; entries keep their order.
func (d *diagnosis) walk(ctx context.Context, key string, f func(first int, ids []string) (int, error)) (complete bool, err error) {
	complete = true
	seen := make(map[string]struct{}, listPageSize)
	for next := 0; ; {
		first := max(0, next-walkOverlap)
		page, err := d.conn.Client().LRange(ctx, key, int64(first), int64(first+listPageSize-1)).Result()
		if err != nil {
			return false, fmt.Errorf("reading a list: %w", err)
		}
		old := 0
		for old < len(page) && hasKey(seen, page[old]) {
			old++
		}
		if first > 0 && old < min(walkRun, next-first) {
			complete = false
		}
		removed, err := f(first+old, page[old:])
		if err != nil {
			return false, err
		}
		if len(page) < listPageSize {
			return complete, nil
		}
		clear(seen)
		for _, id := range page {
			seen[id] = struct{}{}
		}
		next = max(0, first+len(page)-removed)
	}
}

func hasKey(m map[string]struct{}, key string) bool {
	_, ok := m[key]
	return ok
}

// checkList checks the IDs of a list and returns their set.
func (d *diagnosis) checkList(ctx context.Context, q *queue, in collection) (idSet, error) {
	set := idSet{seed: d.seed}
	if q.broken[in.key] {
		return set, nil
	}
	n, err := d.conn.Client().LLen(ctx, in.key).Result()
	if err != nil {
		return set, fmt.Errorf("length of a list: %w", err)
	}
	set.hashes = make([]uint64, 0, n+n/8)
	_, err = d.walk(ctx, in.key, func(first int, ids []string) (int, error) {
		for _, id := range ids {
			set.hashes = append(set.hashes, maphash.String(d.seed, id))
		}
		return d.checkIDs(ctx, q, in, first-walkOverlap, ids)
	})
	if err != nil {
		return set, err
	}
	slices.Sort(set.hashes)
	twice := idSet{seed: d.seed}
	for i := 1; i < len(set.hashes); i++ {
		if set.hashes[i] == set.hashes[i-1] {
			twice.hashes = append(twice.hashes, set.hashes[i])
		}
	}
	set.hashes = slices.Compact(set.hashes)
	if len(twice.hashes) == 0 {
		return set, nil
	}
	return set, d.checkTwice(ctx, q, in, twice)
}

// checkTwice checks IDs that a walk found twice. In a list in use most of them have moved; a
// second walk excludes these.
func (d *diagnosis) checkTwice(ctx context.Context, q *queue, in collection, twice idSet) error {
	times := make(map[string]int)
	_, err := d.walk(ctx, in.key, func(_ int, ids []string) (int, error) {
		for _, id := range ids {
			if twice.has(id) {
				times[id]++
			}
		}
		return 0, nil
	})
	checked := 0
	for id, n := range times {
		if err != nil || checked == twiceLimit {
			break
		}
		if n > 1 {
			checked++
			_, err = d.confirmReferences(ctx, q, in, 0, 0, []reference{{in.key, id}})
		}
	}
	return err
}

// checkSet checks the IDs of a sorted set. It returns the number of removed IDs.
func (d *diagnosis) checkSet(ctx context.Context, q *queue, in collection) (int, error) {
	return d.eachPage(ctx, q, in.key, func(ids []string) (int, error) { return d.checkIDs(ctx, q, in, 0, ids) })
}

// eachPage calls f with the members of a set or sorted set, possibly more than once. f returns how
// many of them it removed; eachPage returns their sum.
func (d *diagnosis) eachPage(ctx context.Context, q *queue, key string, f func(members []string) (int, error)) (int, error) {
	if q.broken[key] {
		return 0, nil
	}
	scan, each := d.conn.Client().ZScan, 2 // each member with its score
	if key == q.Keys.Groups() {
		scan, each = d.conn.Client().SScan, 1
	}
	removed := 0
	for cursor := uint64(0); ; {
		page, next, err := scan(ctx, key, cursor, "", pageSize).Result()
		if err != nil {
			return removed, fmt.Errorf("reading a set: %w", err)
		}
		members := make([]string, 0, len(page)/each)
		for i := 0; i < len(page); i += each {
			members = append(members, page[i])
		}
		n, err := f(members)
		removed += n
		switch {
		case err != nil:
			return removed, err
		case n > 0: // the cursor of miniredis counts entries and would skip those that have moved up
		case next == 0:
			return removed, nil
		default:
			cursor = next
		}
	}
}

// checkIDs checks IDs of a collection, which are in a list at most a page after first. It returns
// the number of removed entries.
func (d *diagnosis) checkIDs(ctx context.Context, q *queue, in collection, first int, ids []string) (int, error) {
	tasks, err := d.readTasks(ctx, q, ids)
	if err != nil {
		return 0, err
	}
	var suspects []reference
	seen := make(map[string]struct{})
	for _, t := range tasks {
		here := t.state == in.state.String() && (in.group == "" || t.group == in.group)
		if !here && !hasKey(seen, t.id) {
			seen[t.id] = struct{}{}
			suspects = append(suspects, reference{in.key, t.id})
		}
	}
	return d.confirmReferences(ctx, q, in, first, listPageSize+2*walkOverlap, suspects)
}

// confirmReferences checks references that seem to be wrong, to tasks of a collection, or of locks
// if in is empty. The IDs of a list are in the part of n entries that begins with first; if n is 0,
// in any part. It returns the number of removed entries.
func (d *diagnosis) confirmReferences(ctx context.Context, q *queue, in collection, first, n int, suspects []reference) (int, error) {
	removed, state := 0, ""
	if in.key != "" {
		state = in.state.String()
	}
	for part := range slices.Chunk(suspects, pageSize) {
		c := script.NewCall(diagnoseReferencesScript, 6+3*len(part)).Key(q.Lease)
		for _, s := range part {
			c.Key(s.key, q.Keys.Task(s.id))
		}
		c.Arg(script.Flag(d.repair), state, in.group, max(0, first-removed), n)
		for _, s := range part {
			c.Arg(s.id)
		}
		results, err := d.send(ctx, c, len(part))
		if err != nil {
			return removed, err
		}
		for i, r := range results {
			removed += r.repaired
			if err := d.reportReference(ctx, q, part[i], r); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

func (d *diagnosis) reportReference(ctx context.Context, q *queue, s reference, r result) error {
	f := r.describe(s.key, s.id)
	switch {
	case f == nil:
		return nil
	case s.key == q.Keys.Lease():
		f.Kind, f.Detail, f.Repair = LeaseWithoutActive, "there is a lease but no active task", "remove the lease"
	case r.finding == "misplaced":
		// Whether the task is also in its own collection only selects the text.
		tasks, err := d.readTasks(ctx, q, []string{s.id})
		if err == nil {
			err = d.readPlaces(ctx, q, tasks)
		}
		if err != nil {
			return err
		}
		if t := tasks[0]; t.there || t.state == wire.StatePending.String() && q.pendingIDs.has(s.id) {
			f.Kind = InTwoCollections
			f.Detail, f.Repair = "the ID is in this collection and in the one of its state", "remove the ID from this collection"
		}
	}
	return d.report(q, f)
}

// checkLocks checks uniqueness locks.
func (d *diagnosis) checkLocks(ctx context.Context, q *queue, keys []string) error {
	holders := make([]*redis.StringCmd, len(keys))
	err := d.read(ctx, "locks", func(pipe redis.Pipeliner) {
		for i, key := range keys {
			holders[i] = pipe.Get(ctx, key)
		}
	})
	if err != nil {
		return err
	}
	var locks []reference
	for i, key := range keys {
		switch err := holders[i].Err(); {
		case err == nil:
			locks = append(locks, reference{key, holders[i].Val()})
		case errors.Is(err, redis.Nil): // it expired
		default:
			if err := d.checkTypes(ctx, q, []string{key}); err != nil {
				return err
			}
		}
	}
	known := make(map[string]*redis.StringCmd, len(locks)) // the locks that the holders reference
	err = d.read(ctx, "the holders of locks", func(pipe redis.Pipeliner) {
		for _, l := range locks {
			known[l.key] = pipe.HGet(ctx, q.Keys.Task(l.id), wire.FieldUniqueKey)
		}
	})
	if err != nil {
		return err
	}
	locks = slices.DeleteFunc(locks, func(l reference) bool { return known[l.key].Val() == l.key })
	_, err = d.confirmReferences(ctx, q, collection{}, 0, 0, locks)
	return err
}
