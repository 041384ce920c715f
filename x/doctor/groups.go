package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// checkGroupNames checks the names of groups and the aggregation sets without tasks.
func (d *diagnosis) checkGroupNames(ctx context.Context, q *queue) error {
	k := q.Keys
	_, err := d.eachPage(ctx, q, k.Groups(), func(names []string) (int, error) {
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = k.Group(name)
		}
		return 0, d.checkEmpty(ctx, q, keys)
	})
	if err != nil {
		return err
	}
	_, err = d.eachPage(ctx, q, k.AggregationSets(), func(members []string) (int, error) {
		var sets []string
		for _, member := range members {
			if strings.HasPrefix(member, k.GroupPrefix()) {
				sets = append(sets, member)
			} else if err := d.foreignSet(ctx, q, member); err != nil {
				return 0, err
			}
		}
		return 0, d.checkEmpty(ctx, q, sets)
	})
	return err
}

// foreignSet reports a member of aggregation_sets that is not a key of the queue.
func (d *diagnosis) foreignSet(ctx context.Context, q *queue, member string) error {
	f := &Finding{
		Key: q.Keys.AggregationSets(), Kind: StaleAggregationSet,
		Detail: fmt.Sprintf("%.200q is not the key of an aggregation set of the queue", member), Repair: "remove it from the list of aggregation sets",
	}
	if d.repair {
		if err := d.conn.Client().ZRem(ctx, q.Keys.AggregationSets(), member).Err(); err != nil {
			return fmt.Errorf("removing an aggregation set: %w", err)
		}
		f.Repaired = true
	}
	return d.report(q, f)
}

// checkEmpty checks the groups and sets that do not exist.
func (d *diagnosis) checkEmpty(ctx context.Context, q *queue, keys []string) error {
	exist := make([]*redis.IntCmd, len(keys))
	err := d.read(ctx, "groups", func(pipe redis.Pipeliner) {
		for i, key := range keys {
			exist[i] = pipe.Exists(ctx, key)
		}
	})
	if err != nil {
		return err
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

// checkGroup checks a key with the prefix of groups from a SCAN.
func (d *diagnosis) checkGroup(ctx context.Context, q *queue, key string) error {
	k := q.Keys
	if err := d.checkTypes(ctx, q, []string{key}); err != nil || q.broken[key] || q.broken[k.Groups()] || q.broken[k.AggregationSets()] {
		return err
	}
	name, parent := groupNames(k, key)
	var listed *redis.FloatCmd
	var named *redis.BoolCmd
	err := d.read(ctx, "the lists of groups", func(pipe redis.Pipeliner) {
		listed = pipe.ZScore(ctx, k.AggregationSets(), key)
		named = pipe.SIsMember(ctx, k.Groups(), name)
	})
	if err != nil {
		return err
	}
	in := collection{key: key, state: wire.StateAggregating, group: name}
	switch {
	case listed.Err() == nil:
		in.group = parent
	case !named.Val():
		return d.confirmGroup(ctx, q, key) // the next diagnosis checks its tasks
	}
	removed, err := d.checkSet(ctx, q, in)
	if err != nil || removed == 0 {
		return err
	}
	return d.checkEmpty(ctx, q, []string{key})
}

// groupNames returns the name of the group with this key, and the name of the group whose
// aggregation set it would be.
func groupNames(k wire.Queue, key string) (name, parent string) {
	name = strings.TrimPrefix(key, k.GroupPrefix())
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		parent = name[:i]
	}
	return name, parent
}

func (d *diagnosis) confirmGroup(ctx context.Context, q *queue, key string) error {
	name, parent := groupNames(q.Keys, key)
	c := script.NewCall(diagnoseGroupScript, 8).Key(q.Groups, q.AggregationSets, q.ConsumedSets, key).Arg(script.Flag(d.repair), name, parent, q.TaskPrefix)
	results, err := d.send(ctx, c, 1)
	if err != nil {
		return err
	}
	f := results[0].describe(q.Keys.Groups(), "")
	if f == nil {
		return nil
	}
	if r := results[0].finding; r == "unlisted" || r == "empty set" {
		f.Key = q.Keys.AggregationSets()
	}
	f.Detail = fmt.Sprintf(f.Detail, name, key, parent)
	return d.report(q, f)
}
