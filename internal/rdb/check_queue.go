package rdb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// queueCheck looks for what is broken in one queue.
type queueCheck struct {
	client redis.UniversalClient
	keys   wire.Queue
	found  []Violation

	indexed map[string][]*collection // by ID: once for each time that it is in a collection
	leased  map[string]struct{}
	tasks   []string // the IDs that there is a hash of, sorted
	locks   []string
}

// collection is a key that holds the IDs of the tasks in one state.
type collection struct {
	key   string
	state wire.State
	group string // only where the state is aggregating
}

// kind is what a key's name says that it holds.
type kind struct {
	typ     string // as Redis's TYPE names it
	state   wire.State
	expires bool // must have a TTL
	integer bool // holds a number
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
	return c.checkLocks(ctx)
}

// kindOf tells by its name what a key of a queue other than a task must be. There is none for a key that nobody knows.
func kindOf(k wire.Queue, key string) (kind, bool) {
	switch key {
	case k.Pending():
		return kind{typ: "list", state: wire.StatePending}, true
	case k.Active():
		return kind{typ: "list", state: wire.StateActive}, true
	case k.Scheduled():
		return kind{typ: "zset", state: wire.StateScheduled}, true
	case k.Retry():
		return kind{typ: "zset", state: wire.StateRetry}, true
	case k.Archived():
		return kind{typ: "zset", state: wire.StateArchived}, true
	case k.Completed():
		return kind{typ: "zset", state: wire.StateCompleted}, true
	case k.Lease(), k.AggregationSets():
		return kind{typ: "zset"}, true
	case k.Groups():
		return kind{typ: "set"}, true
	case k.Paused(), k.Processed(), k.Failed():
		return kind{typ: "string", integer: true}, true
	case k.GroupsDue(), k.SpentSets():
		return kind{typ: "zset", expires: true}, true
	case k.GroupsSwept():
		return kind{typ: "string", expires: true}, true
	case k.Marker():
		return kind{typ: "list", expires: true}, true
	}
	switch {
	case strings.HasPrefix(key, k.GroupPrefix()):
		return kind{typ: "zset"}, true
	case strings.HasPrefix(key, k.Rouse("")):
		return kind{typ: "list", expires: true}, true
	case strings.HasPrefix(key, k.Answer("")), strings.HasPrefix(key, k.Tick("")), strings.HasPrefix(key, k.Import("")):
		return kind{typ: "string", expires: true}, true
	case strings.HasPrefix(key, lockPrefix(k)):
		return kind{typ: "string"}, true
	}
	for _, prefix := range []string{k.Processed() + ":", k.Failed() + ":"} {
		if day, ok := strings.CutPrefix(key, prefix); ok {
			_, err := time.Parse(time.DateOnly, day)
			return kind{typ: "string", expires: true, integer: true}, err == nil
		}
	}
	return kind{}, false
}

// lockPrefix is what the keys of all uniqueness locks begin with.
func lockPrefix(k wire.Queue) string { return strings.TrimSuffix(k.Unique("", nil), ":") }

// checkKeys checks type and TTL of keys other than tasks, and numbers. It returns those whose type is right.
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
		k, known := kindOf(c.keys, key)
		typ := types[i].Val()
		switch {
		case typ == "none": // gone since the scan
		case !known:
			c.report(key, "", "no key of a queue has this name")
		case typ != k.typ:
			c.report(key, "", "its type is %s and must be %s", typ, k.typ)
		default:
			sound = append(sound, key)
			if k.expires && ttls[i].Val() == -1 {
				c.report(key, "", "it has no TTL")
			}
			if k.integer {
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
		return ignoreRefused(err)
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		c.report(key, "", "%.40q is not an integer", text)
	}
	return nil
}

// readCollections fills the index from keys whose type is right. Groups come later.
func (c *queueCheck) readCollections(ctx context.Context, keys []string) error {
	for _, key := range keys {
		k, _ := kindOf(c.keys, key)
		var err error
		switch {
		case key == c.keys.Lease():
			err = c.readLeases(ctx)
		case strings.HasPrefix(key, lockPrefix(c.keys)):
			c.locks = append(c.locks, key)
		case k.state == 0:
		case k.typ == "list":
			err = c.readList(ctx, &collection{key: key, state: k.state})
		default:
			err = c.readSet(ctx, &collection{key: key, state: k.state})
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

func (c *queueCheck) checkScore(key, id string, score float64) {
	if score != math.Trunc(score) || math.IsInf(score, 0) {
		c.report(key, id, "its score %v is not a whole number of seconds", score)
	}
}

// eachMember calls f with every member of a sorted set, with some perhaps twice.
func eachMember(ctx context.Context, client redis.UniversalClient, key string, f func(member string, score float64)) error {
	for cursor := uint64(0); ; {
		page, next, err := client.ZScan(ctx, key, cursor, "", checkPage).Result()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page); i += 2 {
			score, err := strconv.ParseFloat(page[i+1], 64)
			if err != nil {
				return fmt.Errorf("score of %q in %s: %w", page[i], key, err)
			}
			f(page[i], score)
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// ignoreRefused keeps only errors that are not Redis's answer: it answers with one where a key has changed its type, or gone.
func ignoreRefused(err error) error {
	if Refused(err) {
		return nil
	}
	return err
}
