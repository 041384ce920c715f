package rdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// checkMembers judges the IDs of a sorted set that holds the tasks of a state, and of a group if it names one. It returns how many
// were struck out.
func (d *doctor) checkMembers(ctx context.Context, q *doctorQueue, key string, state wire.State, group string) (int, error) {
	if q.broken[key] {
		return 0, nil
	}
	struck := 0
	for cursor := uint64(0); ; {
		page, next, err := d.b.client.ZScan(ctx, key, cursor, "", doctorPage).Result()
		if err != nil {
			return struck, fmt.Errorf("rdb: reading a sorted set: %w", err)
		}
		ids := make([]string, 0, len(page)/2)
		for i := 0; i < len(page); i += 2 {
			ids = append(ids, page[i])
		}
		n, err := d.checkPage(ctx, q, key, state, group, ids)
		struck += n
		if err != nil {
			return struck, err
		}
		if n > 0 {
			continue // the cursor of miniredis counts entries, and would pass over those that have moved up
		}
		if next == 0 {
			return struck, nil
		}
		cursor = next
	}
}

func (d *doctor) checkPage(ctx context.Context, q *doctorQueue, key string, state wire.State, group string, ids []string) (int, error) {
	suspects, err := d.elsewhere(ctx, q, ids, state, group)
	if err != nil {
		return 0, err
	}
	struck := 0
	for part := range slices.Chunk(suspects, doctorPage) {
		c := newCall(diagnoseMembersScript, 4+2*len(part)).key(key)
		for _, id := range part {
			c.key(q.keys.Task(id))
		}
		c.arg(flag(d.repair), state.String(), group)
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

// atHome reports whether a task that a foreign collection holds is in that of its state too. It only chooses the word for what was
// found.
func (d *doctor) atHome(ctx context.Context, q *doctorQueue, id string) (bool, error) {
	k := q.keys
	f, err := d.b.client.HMGet(ctx, k.Task(id), wire.FieldState, wire.FieldGroup).Result()
	if err != nil {
		return false, ignoreRefused(err)
	}
	text, _ := f[0].(string)
	group, _ := f[1].(string)
	state, _ := wire.ParseState(text)
	key := zsetOf(k, state)
	switch state {
	case wire.StatePending:
		return q.pendingIDs.has(id), nil
	case wire.StateActive:
		key = k.Lease()
	case wire.StateAggregating:
		key = k.Group(group)
	}
	err = d.b.client.ZScore(ctx, key, id).Err()
	return err == nil, ignoreRefused(err)
}

// zsetOf is the key of the sorted set with the tasks of a state, empty where that is a list, or one of many.
func zsetOf(k wire.Queue, state wire.State) string {
	switch state {
	case wire.StatePending, wire.StateActive, wire.StateAggregating:
		return ""
	default:
		return collectionOf(k, state, "")
	}
}

// checkGroupNames judges the names of groups and the aggregation sets that have no tasks.
func (d *doctor) checkGroupNames(ctx context.Context, q *doctorQueue) error {
	k := q.keys
	if !q.broken[k.Groups()] {
		for cursor := uint64(0); ; {
			names, next, err := d.b.client.SScan(ctx, k.Groups(), cursor, "", doctorPage).Result()
			if err != nil {
				return fmt.Errorf("rdb: reading the names of groups: %w", err)
			}
			for i, name := range names {
				names[i] = k.Group(name)
			}
			if err := d.checkEmpty(ctx, q, names); err != nil {
				return err
			}
			if next == 0 {
				break
			}
			cursor = next
		}
	}
	if q.broken[k.AggregationSets()] {
		return nil
	}
	for cursor := uint64(0); ; {
		page, next, err := d.b.client.ZScan(ctx, k.AggregationSets(), cursor, "", doctorPage).Result()
		if err != nil {
			return fmt.Errorf("rdb: reading the aggregation sets: %w", err)
		}
		sets := make([]string, 0, len(page)/2)
		for i := 0; i < len(page); i += 2 {
			if strings.HasPrefix(page[i], k.GroupPrefix()) {
				sets = append(sets, page[i])
			} else if err := d.foreignSet(ctx, q, page[i]); err != nil {
				return err
			}
		}
		if err := d.checkEmpty(ctx, q, sets); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// foreignSet reports a member of aggregation_sets that is no key of the queue's.
func (d *doctor) foreignSet(ctx context.Context, q *doctorQueue, member string) error {
	f := &Finding{
		Key: q.keys.AggregationSets(), Kind: StaleAggregationSet,
		Detail: fmt.Sprintf("%.200q is not the key of an aggregation set of the queue", member), Repair: "it is struck out",
	}
	if d.repair {
		if err := d.b.client.ZRem(ctx, q.keys.AggregationSets(), member).Err(); err != nil {
			return fmt.Errorf("rdb: striking out an aggregation set: %w", err)
		}
		f.Repaired = true
	}
	return d.found(q, f)
}

// checkEmpty judges those of the groups and sets that have no key.
func (d *doctor) checkEmpty(ctx context.Context, q *doctorQueue, keys []string) error {
	exist := make([]*redis.IntCmd, len(keys))
	if len(keys) == 0 {
		return nil
	}
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			exist[i] = pipe.Exists(ctx, key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: looking for groups: %w", err)
	}
	for i, key := range keys {
		if exist[i].Val() > 0 {
			continue
		}
		if err := d.confirmGroup(ctx, q, key); err != nil {
			return err
		}
	}
	return nil
}

// checkGroup judges a key that a SCAN found under the prefix of groups.
func (d *doctor) checkGroup(ctx context.Context, q *doctorQueue, key string) error {
	k := q.keys
	if err := d.checkTypes(ctx, q, []string{key}); err != nil || q.broken[key] || q.broken[k.Groups()] || q.broken[k.AggregationSets()] {
		return err
	}
	name, parent := groupNames(k, key)
	var listed *redis.FloatCmd
	var named *redis.BoolCmd
	_, err := d.b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		listed = pipe.ZScore(ctx, k.AggregationSets(), key)
		named = pipe.SIsMember(ctx, k.Groups(), name)
		return nil
	})
	if ignoreRefused(err) != nil {
		return fmt.Errorf("rdb: looking up a group: %w", err)
	}
	group := name
	switch {
	case listed.Err() == nil:
		group = parent
	case !named.Val():
		return d.confirmGroup(ctx, q, key) // and its tasks are judged next time
	}
	struck, err := d.checkMembers(ctx, q, key, wire.StateAggregating, group)
	if err != nil || struck == 0 {
		return err
	}
	return d.checkEmpty(ctx, q, []string{key})
}

// groupNames returns the name of the group that has the key, and that of the group that it would be an aggregation set of.
func groupNames(k wire.Queue, key string) (name, parent string) {
	name = strings.TrimPrefix(key, k.GroupPrefix())
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		parent = name[:i]
	}
	return name, parent
}

func (d *doctor) confirmGroup(ctx context.Context, q *doctorQueue, key string) error {
	k := q.keys
	name, parent := groupNames(k, key)
	c := newCall(diagnoseGroupScript, 8).key(q.groups, q.aggregationSets, q.spentSets, key).arg(flag(d.repair), name, parent, q.taskPrefix)
	verdicts, err := d.judge(ctx, c, 1)
	if err != nil {
		return err
	}
	f := &Finding{Key: k.Groups(), Repaired: verdicts[0].mended > 0}
	switch verdicts[0].found {
	case findingUnnamed:
		f.Kind, f.Repair = MissingGroupName, "its name is put into the set of groups"
		f.Detail = fmt.Sprintf("group %q has tasks, and the set of groups lacks its name", name)
	case findingEmptyName:
		f.Kind, f.Repair = EmptyGroupName, "its name is struck out"
		f.Detail = fmt.Sprintf("group %q has no tasks", name)
	case findingUnlisted:
		f.Key = k.AggregationSets()
		f.Kind, f.Repair = MissingAggregationSet, "it is listed as due, so that an aggregator takes its tasks back"
		f.Detail = fmt.Sprintf("%s holds tasks of group %q, and aggregation_sets lacks it", key, parent)
	case findingEmptySet:
		f.Key = k.AggregationSets()
		f.Kind, f.Repair = StaleAggregationSet, "it is struck out"
		f.Detail = fmt.Sprintf("%s has no tasks", key)
	default:
		return nil
	}
	return d.found(q, f)
}
