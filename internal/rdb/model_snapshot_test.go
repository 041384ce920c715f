package rdb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// snapshot is what Redis holds, by key: the fields of a hash, the members and scores of a sorted
// set, the numbered elements of a list, the members of a set, or one value without a name.
type snapshot map[string]map[string]string

// daily is what all daily counters together are called: a test may run past midnight.
const daily = ":daily"

// takeSnapshot reads the whole database.
func takeSnapshot(ctx context.Context, client redis.UniversalClient) (snapshot, error) {
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	types := make([]*redis.StatusCmd, len(keys))
	if _, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = pipe.Type(ctx, key)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	values := make([]redis.Cmder, len(keys))
	if _, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			switch typ := types[i].Val(); typ {
			case "hash":
				values[i] = pipe.HGetAll(ctx, key)
			case "zset":
				values[i] = pipe.ZRangeWithScores(ctx, key, 0, -1)
			case "list":
				values[i] = pipe.LRange(ctx, key, 0, -1)
			case "set":
				values[i] = pipe.SMembers(ctx, key)
			default:
				values[i] = pipe.Get(ctx, key)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	s := make(snapshot, len(keys))
	for i, key := range keys {
		s.add(key, types[i].Val(), values[i])
	}
	return s, nil
}

func (s snapshot) add(key, typ string, value redis.Cmder) {
	fields := map[string]string{}
	switch cmd := value.(type) {
	case *redis.MapStringStringCmd:
		fields = cmd.Val()
		if ns, err := strconv.ParseInt(fields[wire.FieldPendingSince], 10, 64); err == nil {
			fields[wire.FieldPendingSince] = strconv.FormatInt(ns/1e9, 10)
		}
	case *redis.ZSliceCmd:
		for _, z := range cmd.Val() {
			fields[z.Member.(string)] = strconv.FormatFloat(z.Score, 'f', -1, 64)
		}
	case *redis.StringSliceCmd:
		if typ == "set" {
			fields = names(cmd.Val())
		} else {
			fields = numbered(cmd.Val())
		}
	case *redis.StringCmd:
		if _, day, ok := strings.Cut(key, "ed:"); ok && len(day) == len("2006-01-02") {
			s.addDaily(strings.TrimSuffix(key, ":"+day)+daily, cmd.Val())
			return
		}
		fields[""] = cmd.Val()
	}
	s[key] = fields
}

func (s snapshot) addDaily(key, value string) {
	n, _ := strconv.Atoi(value) // a value that is not a number counts as zero
	before, _ := strconv.Atoi(s[key][""])
	s[key] = map[string]string{"": strconv.Itoa(before + n)}
}

func numbered(list []string) map[string]string {
	fields := make(map[string]string, len(list))
	for i, value := range list {
		fields[fmt.Sprintf("%03d", i)] = value
	}
	return fields
}

func names(list []string) map[string]string {
	fields := make(map[string]string, len(list))
	for _, name := range list {
		fields[name] = ""
	}
	return fields
}

// equal reports whether both hold the same.
func (s snapshot) equal(other snapshot) bool {
	return maps.EqualFunc(s, other, maps.Equal[map[string]string, map[string]string])
}

// snapshot is what Redis must hold where the model is right, without the markers.
func (m *model) snapshot(ns wire.Namespace) snapshot {
	s := snapshot{}
	for _, q := range m.queues {
		if q.published {
			s.put(ns.Queues(), q.keys.Name, "")
		}
		q.addTo(s)
	}
	return s
}

func (s snapshot) put(key, field, value string) {
	if s[key] == nil {
		s[key] = map[string]string{}
	}
	s[key][field] = value
}

func (q *modelQueue) addTo(s snapshot) {
	k := q.keys
	for key, list := range map[string][]string{k.Pending(): q.pending, k.Active(): q.active} {
		if len(list) > 0 {
			newest := slices.Clone(list)
			slices.Reverse(newest)
			s[key] = numbered(newest)
		}
	}
	for lock, holder := range q.locks {
		s.put(lock, "", holder)
	}
	if q.paused {
		s.put(k.Paused(), "", "1")
	}
	if q.swept {
		s.put(k.GroupsSwept(), "", "1")
	}
	for group, at := range q.due {
		s.put(k.GroupsDue(), group, strconv.FormatInt(at.unix, 10))
	}
	for key, set := range q.sets {
		s.put(k.AggregationSets(), key, strconv.FormatInt(set.at.unix, 10))
	}
	for key, n := range map[string]int{k.Processed(): q.processed, k.Failed(): q.failed} {
		if n > 0 {
			s.put(key, "", strconv.Itoa(n))
			s.put(key+daily, "", strconv.Itoa(n))
		}
	}
	for _, t := range q.tasks {
		q.addTask(s, t)
	}
}

func (q *modelQueue) addTask(s snapshot, t *modelTask) {
	at := strconv.FormatInt(t.at.unix, 10)
	hash := map[string]string{wire.FieldMessage: t.message, wire.FieldState: t.state.String(), wire.FieldToken: t.token,
		wire.FieldSettled: t.settled, wire.FieldGroup: t.group, wire.FieldUniqueKey: t.lock, wire.FieldResult: t.result,
		wire.FieldProgress: t.progress}
	maps.Copy(hash, t.log)
	maps.DeleteFunc(hash, func(_, value string) bool { return value == "" })
	key, field := q.timeOf(t)
	s[q.keys.Task(t.id)] = hash
	s.put(key, field, at)
	if t.state == wire.StateAggregating && t.set == "" {
		s.put(q.keys.Groups(), t.group, "")
	}
}

// timeOf returns the key and field in which Redis keeps the time of a task's state.
func (q *modelQueue) timeOf(t *modelTask) (key, field string) {
	switch k := q.keys; t.state {
	case wire.StatePending:
		return k.Task(t.id), wire.FieldPendingSince
	case wire.StateActive:
		return k.Lease(), t.id
	case wire.StateScheduled:
		return k.Scheduled(), t.id
	case wire.StateRetry:
		return k.Retry(), t.id
	case wire.StateArchived:
		return k.Archived(), t.id
	case wire.StateCompleted:
		return k.Completed(), t.id
	default:
		return q.collectionOf(t), t.id
	}
}

// slack is how many seconds a time may differ from the model's, which began the step at now: times
// are rounded, and Redis has a clock of its own.
const slack = 2

// adopt copies the values that only the broker knows: the exact times of the step that ended now,
// if they agree with the model's, and the names of recoveries.
func (m *model) adopt(s snapshot, ended int64) {
	for _, q := range m.queues {
		for _, t := range q.tasks {
			if name := s[q.keys.Task(t.id)][wire.FieldSettled]; t.settled == byRecovery && name != "" {
				t.settled = name
			}
			key, field := q.timeOf(t)
			t.at.adopt(s[key][field], ended-m.now)
		}
		for group, at := range q.due {
			at.adopt(s[q.keys.GroupsDue()][group], ended-m.now)
		}
		for key, set := range q.sets {
			set.at.adopt(s[q.keys.AggregationSets()][key], ended-m.now)
		}
	}
}

// adopt takes over a time that Redis holds after a step that took so many seconds.
func (at *moment) adopt(score string, took int64) {
	seen, err := strconv.ParseInt(score, 10, 64)
	if err == nil && !at.exact && seen >= at.unix-slack && seen <= at.unix+took+slack {
		*at = moment{unix: seen, exact: true}
	}
}
