package rdbcheck

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// queueCheck finds the violations of one queue.
type queueCheck struct {
	client redis.UniversalClient
	keys   wire.Queue
	found  []Violation

	indexed map[string][]*collection // by ID: once for each time that it is in a collection
	leased  map[string]struct{}
	held    map[string]bool // the members of HeldTasks, and whether a task has the place
	tasks   []string        // the IDs that there is a hash of, sorted
	locks   []string
}

// collection is a key that holds the IDs of the tasks in one state.
type collection struct {
	key   string
	state wire.State
	group string // only where the state is aggregating
}

func (c *queueCheck) report(key, id, format string, args ...any) {
	c.found = append(c.found, Violation{Queue: c.keys.Name, Key: key, ID: id, Text: fmt.Sprintf(format, args...)})
}

// run checks the queue that has these keys.
func (c *queueCheck) run(ctx context.Context, keys []string) error {
	var others []string
	for _, key := range keys {
		if id, ok := strings.CutPrefix(key, c.keys.TaskPrefix()); ok {
			c.tasks = append(c.tasks, id)
		} else {
			others = append(others, key)
		}
	}
	for page := range slices.Chunk(others, checkPage) {
		sound, err := c.checkKeys(ctx, page)
		if err != nil {
			return err
		}
		if err := c.readCollections(ctx, sound); err != nil {
			return err
		}
	}
	if err := c.checkGroups(ctx, keys); err != nil {
		return err
	}
	if err := c.checkTasks(ctx); err != nil {
		return err
	}
	if err := c.checkFlows(ctx, others); err != nil {
		return err
	}
	return c.checkLocks(ctx)
}

// checkKeys checks type and TTL of keys other than tasks, and numbers. It returns those whose type
// is right.
func (c *queueCheck) checkKeys(ctx context.Context, keys []string) (sound []string, err error) {
	types := make([]*redis.StatusCmd, len(keys))
	ttls := make([]*redis.DurationCmd, len(keys))
	_, err = c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			types[i], ttls[i] = pipe.Type(ctx, key), pipe.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		k, known := wire.KeyTypeOf(c.keys, key)
		typ := types[i].Val()
		switch {
		case typ == "none": // gone since the scan
		case !known:
			c.report(key, "", "no key of a queue has this name")
		case typ != k.Type:
			c.report(key, "", "its type is %s and must be %s", typ, k.Type)
		default:
			sound = append(sound, key)
			if k.Expires && ttls[i].Val() == -1 {
				c.report(key, "", "it has no TTL")
			}
			if k.Integer {
				if err := c.checkInteger(ctx, key); err != nil {
					return nil, err
				}
			}
		}
	}
	return sound, nil
}

func (c *queueCheck) checkInteger(ctx context.Context, key string) error {
	text, err := c.client.Get(ctx, key).Result()
	if err != nil {
		return script.IgnoreRefused(err)
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		c.report(key, "", "%.40q is not an integer", text)
	}
	return nil
}

// readCollections fills the index from keys whose type is right. Groups come later.
func (c *queueCheck) readCollections(ctx context.Context, keys []string) error {
	for _, key := range keys {
		k, _ := wire.KeyTypeOf(c.keys, key)
		var err error
		switch {
		case key == c.keys.Lease():
			err = c.readLeases(ctx)
		case key == c.keys.HeldTasks():
			c.held = make(map[string]bool)
			err = eachMember(ctx, c.client, key, func(member string, _ float64) { c.held[member] = false })
		case strings.HasPrefix(key, c.keys.UniquePrefix()):
			c.locks = append(c.locks, key)
		case k.State == 0:
		case k.Type == "list":
			err = c.readList(ctx, &collection{key: key, state: k.State})
		default:
			err = c.readSet(ctx, &collection{key: key, state: k.State})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *queueCheck) readLeases(ctx context.Context) error {
	c.leased = make(map[string]struct{})
	return eachMember(ctx, c.client, c.keys.Lease(), func(id string, score float64) {
		c.checkScore(c.keys.Lease(), id, score)
		c.leased[id] = struct{}{}
	})
}

func (c *queueCheck) readList(ctx context.Context, in *collection) error {
	for start := int64(0); ; start += checkPage {
		ids, err := c.client.LRange(ctx, in.key, start, start+checkPage-1).Result()
		if err != nil {
			return err
		}
		for _, id := range ids {
			c.indexed[id] = append(c.indexed[id], in)
		}
		if len(ids) < checkPage {
			return nil
		}
	}
}

func (c *queueCheck) readSet(ctx context.Context, in *collection) error {
	return eachMember(ctx, c.client, in.key, func(id string, score float64) {
		if slices.Contains(c.indexed[id], in) {
			return // ZSCAN may return a member twice
		}
		c.indexed[id] = append(c.indexed[id], in)
		c.checkScore(in.key, id, score)
	})
}

// checkScore checks a time. Those of delayed tasks may have milliseconds.
func (c *queueCheck) checkScore(key, id string, score float64) {
	unit, whole := "seconds", math.Trunc(score)
	if key == c.keys.Scheduled() || key == c.keys.Retry() {
		unit, whole = "milliseconds", math.Round(score*1000)/1000
	}
	if score != whole || math.IsInf(score, 0) {
		c.report(key, id, "its score %v is not a whole number of %s", score, unit)
	}
}

// checkGroups reads the groups and aggregation sets among the keys into the index, and compares the
// groups with the set of their names.
//
// The key of a group named a:b may as well be that of a set of group a. It is a set where
// aggregation_sets holds the key.
func (c *queueCheck) checkGroups(ctx context.Context, keys []string) error {
	sets := make(map[string]bool)
	names := make(map[string]bool) // and whether a group has the name
	for _, key := range keys {
		var err error
		switch key {
		case c.keys.AggregationSets(), c.keys.ConsumedSets():
			err = eachMember(ctx, c.client, key, func(set string, _ float64) { sets[set] = true })
		case c.keys.Groups():
			err = eachName(ctx, c.client, key, func(name string) { names[name] = false })
		}
		if script.IgnoreRefused(err) != nil {
			return err
		}
	}
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, c.keys.GroupPrefix())
		if !ok {
			continue
		}
		in := &collection{key: key, state: wire.StateAggregating, group: name}
		if sets[key] {
			if group, ok := wire.GroupOf(c.keys, key); ok {
				in.group = group
			}
		} else if _, named := names[name]; named {
			names[name] = true
		} else {
			c.report(key, "", "the set of groups does not contain this group, and it is not a known aggregation set")
		}
		if err := c.readSet(ctx, in); script.IgnoreRefused(err) != nil {
			return err
		}
	}
	for name, exists := range names {
		if !exists {
			c.report(c.keys.Groups(), "", "group %q has no tasks", name)
		}
	}
	return nil
}

// eachMember calls f with every member of a sorted set, possibly more than once.
func eachMember(ctx context.Context, client redis.UniversalClient, key string, f func(member string, score float64)) error {
	it := client.ZScan(ctx, key, 0, "", checkPage).Iterator()
	for it.Next(ctx) {
		member := it.Val()
		if !it.Next(ctx) {
			break
		}
		score, err := strconv.ParseFloat(it.Val(), 64)
		if err != nil {
			return fmt.Errorf("score of %q in %s: %w", member, key, err)
		}
		f(member, score)
	}
	return it.Err()
}

// eachName calls f with every member of a set, possibly more than once.
func eachName(ctx context.Context, client redis.UniversalClient, key string, f func(name string)) error {
	it := client.SScan(ctx, key, 0, "", checkPage).Iterator()
	for it.Next(ctx) {
		f(it.Val())
	}
	return it.Err()
}
