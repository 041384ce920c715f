package rdb

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// checkGroups reads the groups and aggregation sets among the keys into the index, and compares the groups with the set of
// their names.
//
// The key of a group named a:b may as well be that of a set of group a. It is a set where aggregation_sets holds the key.
func (c *queueCheck) checkGroups(ctx context.Context, keys []string) error {
	sets := make(map[string]bool)
	names := make(map[string]bool) // and whether a group has the name
	for _, key := range keys {
		var err error
		switch key {
		case c.keys.AggregationSets(), c.keys.SpentSets():
			err = eachMember(ctx, c.client, key, func(set string, _ float64) { sets[set] = true })
		case c.keys.Groups():
			err = eachName(ctx, c.client, key, func(name string) { names[name] = false })
		}
		if ignoreRefused(err) != nil {
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
			c.report(key, "", "the set of groups does not name this group, and it is no known aggregation set")
		}
		if err := c.readSet(ctx, in); ignoreRefused(err) != nil {
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

// eachName calls f with every member of a set, with some perhaps twice.
func eachName(ctx context.Context, client redis.UniversalClient, key string, f func(name string)) error {
	for cursor := uint64(0); ; {
		page, next, err := client.SScan(ctx, key, cursor, "", checkPage).Result()
		if err != nil {
			return err
		}
		for _, name := range page {
			f(name)
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}
