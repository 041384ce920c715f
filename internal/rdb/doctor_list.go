package rdb

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// idSet tells whether an ID is among those of a list, at eight bytes for each. It may say so of one that is not, once in 2⁶⁴ divided by
// their number.
type idSet struct {
	seed   maphash.Seed
	hashes []uint64 // sorted
}

func (s idSet) has(id string) bool {
	_, ok := slices.BinarySearch(s.hashes, maphash.String(s.seed, id))
	return ok
}

const (
	// walkOverlap is how many IDs of a page are read again with the next one, so that none is missed where the list got shorter at
	// its head; walkRun is how many of them must be there to say that none was.
	walkOverlap = 100
	walkRun     = 8

	// scanBudget is how many entries of lists one script call may pass over, about 2 ms on a slow machine. A list that is longer
	// is still passed over once.
	scanBudget = 50_000

	// twiceLimit bounds the IDs of a list that are looked up because they seem to be there twice.
	twiceLimit = 1000
)

// walk reads a list from its head to its end in pages, and calls f with the IDs of each that it did not see before, and where they
// begin. f returns by how many entries it made the list shorter. The walk is complete if it has surely seen all that was in the list
// for the whole time, whatever was added at either end or taken out: they keep their order.
func (d *doctor) walk(ctx context.Context, key string, f func(first int, ids []string) (int, error)) (complete bool, err error) {
	complete = true
	seen := make(map[string]struct{}, doctorListPage)
	for next := 0; ; {
		first := max(0, next-walkOverlap)
		page, err := d.b.client.LRange(ctx, key, int64(first), int64(first+doctorListPage-1)).Result()
		if err != nil {
			return false, fmt.Errorf("rdb: reading a list: %w", err)
		}
		old := 0
		for old < len(page) && hasKey(seen, page[old]) {
			old++
		}
		if first > 0 && old < min(walkRun, next-first) {
			complete = false
		}
		struck, err := f(first+old, page[old:])
		if err != nil {
			return false, err
		}
		if len(page) < doctorListPage {
			return complete, nil
		}
		clear(seen)
		for _, id := range page {
			seen[id] = struct{}{}
		}
		next = max(0, first+len(page)-struck)
	}
}

func hasKey(m map[string]struct{}, key string) bool {
	_, ok := m[key]
	return ok
}

// checkList judges the IDs of a list, and returns the set of them.
func (d *doctor) checkList(ctx context.Context, q *doctorQueue, key string, state wire.State) (idSet, error) {
	set := idSet{seed: d.seed}
	if q.broken[key] {
		return set, nil
	}
	n, err := d.b.client.LLen(ctx, key).Result()
	if err != nil {
		return set, fmt.Errorf("rdb: length of a list: %w", err)
	}
	set.hashes = make([]uint64, 0, n+n/8)
	_, err = d.walk(ctx, key, func(first int, ids []string) (int, error) {
		for _, id := range ids {
			set.hashes = append(set.hashes, maphash.String(d.seed, id))
		}
		return d.checkListed(ctx, q, key, state, first, ids)
	})
	if err != nil {
		return set, err
	}
	slices.Sort(set.hashes)
	var twice []uint64
	for i := 1; i < len(set.hashes); i++ {
		if set.hashes[i] == set.hashes[i-1] {
			twice = append(twice, set.hashes[i])
		}
	}
	set.hashes = slices.Compact(set.hashes)
	if len(twice) == 0 {
		return set, nil
	}
	return set, d.checkTwice(ctx, q, key, state, idSet{seed: d.seed, hashes: slices.Compact(twice)})
}

// checkListed judges IDs that stand together in a list, and returns how many entries were struck out.
func (d *doctor) checkListed(ctx context.Context, q *doctorQueue, key string, state wire.State, first int, ids []string) (int, error) {
	suspects, err := d.elsewhere(ctx, q, ids, state, "")
	if err != nil {
		return 0, err
	}
	struck := 0
	for part := range slices.Chunk(suspects, doctorPage) {
		begin := max(0, first-walkOverlap-struck)
		c := newCall(diagnoseListScript, 6+2*len(part)).key(key, q.lease)
		for _, id := range part {
			c.key(q.keys.Task(id))
		}
		c.arg(flag(d.repair), state.String(), begin, doctorListPage+2*walkOverlap)
		for _, id := range part {
			c.arg(id)
		}
		verdicts, err := d.judge(ctx, c, len(part))
		if err != nil {
			return struck, err
		}
		for i, v := range verdicts {
			struck += v.mended
			if err := d.misplaced(ctx, q, key, part[i], v); err != nil {
				return struck, err
			}
		}
	}
	return struck, nil
}

// checkTwice judges the IDs of a list that were seen twice in it. On a list in use that may be one that moved: a second walk tells most
// of those.
func (d *doctor) checkTwice(ctx context.Context, q *doctorQueue, key string, state wire.State, twice idSet) error {
	times := make(map[string]int)
	_, err := d.walk(ctx, key, func(_ int, ids []string) (int, error) {
		for _, id := range ids {
			if twice.has(id) {
				times[id]++
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	judged := 0
	for id, n := range times {
		if n < 2 || judged == twiceLimit {
			continue
		}
		judged++
		c := newCall(diagnoseTwiceScript, 5).key(key, q.keys.Task(id)).arg(flag(d.repair), state.String(), id)
		verdicts, err := d.judge(ctx, c, 1)
		if err != nil {
			return err
		}
		if verdicts[0].found != findingTwice {
			continue
		}
		err = d.found(q, &Finding{
			Key: key, TaskID: id, Kind: InTwoCollections, Repaired: verdicts[0].mended > 0,
			Detail: "the list holds the ID more than once", Repair: "the ID stays where it is taken first",
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resolve judges the tasks in pending state that were not in pending when it was read. Most were enqueued since, or are gone. A
// short list is searched by the script. A long one is read once more, for all of them together: a task that has been pending
// since the same nanosecond before and after was to be in it for the whole time.
func (d *doctor) resolve(ctx context.Context, q *doctorQueue) error {
	if len(q.deferred) == 0 || q.failed {
		return nil
	}
	suspects := q.deferred
	q.deferred = nil
	n, err := d.b.client.LLen(ctx, q.keys.Pending()).Result()
	if Refused(err) {
		return nil // of another type: it was told
	}
	if err != nil {
		return fmt.Errorf("rdb: length of a list: %w", err)
	}
	absent := false
	for try := 0; n > int64(d.b.scanBudget) && len(suspects) > 0 && !absent && try < 3; try++ {
		left := make(map[string]suspect, len(suspects))
		for _, s := range suspects {
			left[s.id] = s
		}
		absent, err = d.walk(ctx, q.keys.Pending(), func(_ int, ids []string) (int, error) {
			for _, id := range ids {
				delete(left, id)
			}
			return 0, nil
		})
		if err != nil {
			return err
		}
		suspects = slices.DeleteFunc(suspects, func(s suspect) bool { _, ok := left[s.id]; return !ok })
	}
	var searched, walked []suspect
	for _, s := range suspects {
		if absent && s.since != "" {
			walked = append(walked, s)
		} else {
			s.since = ""
			searched = append(searched, s)
		}
	}
	if err := d.confirm(ctx, q, walked, 0); err != nil {
		return err
	}
	return d.confirm(ctx, q, searched, n)
}

// elsewhere returns those of the IDs whose task is not in the state, or the group, of the collection that they were read from.
func (d *doctor) elsewhere(ctx context.Context, q *doctorQueue, ids []string, state wire.State, group string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	hashes := make([]*redis.SliceCmd, len(ids))
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			hashes[i] = pipe.HMGet(ctx, q.keys.Task(id), wire.FieldState, wire.FieldGroup)
		}
		return nil
	})
	if ignoreRefused(err) != nil {
		return nil, fmt.Errorf("rdb: reading tasks: %w", err)
	}
	var out []string
	seen := make(map[string]struct{})
	for i, id := range ids {
		err := hashes[i].Err()
		if ignoreRefused(err) != nil {
			return nil, fmt.Errorf("rdb: reading a task: %w", err)
		}
		f := hashes[i].Val()
		if err == nil && f[0] == state.String() && (group == "" || f[1] == group) || hasKey(seen, id) {
			continue
		}
		seen[id] = struct{}{}
		out = append(out, id)
	}
	return out, nil
}
