package redistest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// Dump returns every key of the database with what it holds, as lines to be compared with those
// expected:
//
//	asynq:{q}:pending = [t2 t1]
//	asynq:{q}:lease = {t3:now+30s}
//	asynq:{q}:t:t3 = {msg:test(payload) state:active token:f1}
//	asynq:{q}:marker = [1] ttl 60s
//
// Lists stand in their order, head first; sets, sorted sets and hashes sorted by member. A message
// is its type and payload, with those other fields that differ from those of Message. Records of
// answers, whose names are random, are left out, and the random name of a recovery in a task is
// "recovery". Times stand relative to now. They and TTLs are rounded to multiples of ten seconds,
// so a test that uses multiples may take up to nine seconds.
func (r *Redis) Dump(t testing.TB) []string { return Dump(t, r.client) }

// Dump is Redis.Dump for any client.
func Dump(t testing.TB, client redis.UniversalClient) []string {
	t.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	now := time.Now()
	lines := make([]string, 0, len(keys))
	for _, key := range keys {
		if strings.Contains(key, "}:answer:") {
			continue
		}
		value, err := dumpValue(ctx, client, key, now)
		if err != nil {
			t.Fatalf("dump of %s: %v", key, err)
		}
		ttl := client.PTTL(ctx, key).Val()
		if ttl >= 0 {
			value += " ttl " + roundSeconds(ttl.Seconds()).String()
		}
		lines = append(lines, dated(key, now)+" = "+value)
	}
	return lines
}

func dumpValue(ctx context.Context, client redis.UniversalClient, key string, now time.Time) (string, error) {
	typ, err := client.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	switch typ {
	case "string":
		return client.Get(ctx, key).Result()
	case "list":
		list, err := client.LRange(ctx, key, 0, -1).Result()
		return fmt.Sprint(list), err
	case "set":
		members, err := client.SMembers(ctx, key).Result()
		slices.Sort(members)
		return "{" + strings.Join(members, " ") + "}", err
	case "zset":
		members, err := client.ZRangeWithScores(ctx, key, 0, -1).Result()
		values := make(map[string]string, len(members))
		for _, m := range members {
			values[m.Member.(string)] = relative(m.Score, now)
		}
		return dumpMap(values), err
	case "hash":
		values, err := client.HGetAll(ctx, key).Result()
		for field, v := range values {
			switch field {
			case wire.FieldMessage:
				values[field] = dumpMessage(v, now)
			case wire.FieldSettled:
				if strings.Contains(v, "-") {
					values[field] = "recovery"
				}
			case wire.FieldPendingSince:
				if ns, err := strconv.ParseInt(v, 10, 64); err == nil {
					values[field] = relative(float64(ns)/1e9, now)
				}
			}
		}
		return dumpMap(values), err
	default:
		return "(" + typ + ")", nil
	}
}

func dumpMap(values map[string]string) string {
	parts := make([]string, 0, len(values))
	for _, k := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, k+":"+values[k])
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// dumpMessage formats the fields of a message that differ from those of Message. It quotes a
// message that cannot be decoded.
func dumpMessage(encoded string, now time.Time) string {
	m, err := wire.DecodeTaskMessage([]byte(encoded))
	if err != nil || encoded == "" {
		return strconv.Quote(encoded)
	}
	usual := Message(m.Queue, m.ID)
	parts := []string{string(m.Payload)}
	add := func(differs bool, name string, value any) {
		if differs {
			parts = append(parts, fmt.Sprintf("%s=%v", name, value))
		}
	}
	add(m.MaxRetry != usual.MaxRetry, "max_retry", m.MaxRetry)
	add(m.Retried != 0, "retried", m.Retried)
	add(m.LastErr != "", "error", m.LastErr)
	add(m.Timeout != usual.Timeout, "timeout", m.Timeout)
	add(m.Deadline != 0, "deadline", relative(float64(m.Deadline), now))
	add(m.UniqueKey != "", "unique_key", m.UniqueKey)
	add(m.LastFailedAt != 0, "failed_at", relative(float64(m.LastFailedAt), now))
	add(m.Retention != 0, "retention", m.Retention)
	add(m.CompletedAt != 0, "completed_at", relative(float64(m.CompletedAt), now))
	add(m.Group != "", "group", m.Group)
	add(len(m.Headers) > 0, "headers", m.Headers)
	return m.Type + "(" + strings.Join(parts, " ") + ")"
}

// relative prints a time in unix seconds as seen from now, and other numbers as they are.
func relative(seconds float64, now time.Time) string {
	diff := seconds - float64(now.UnixNano())/1e9
	if math.Abs(diff) > 365*24*60*60 {
		return strconv.FormatFloat(seconds, 'f', -1, 64)
	}
	switch d := roundSeconds(diff); {
	case d == 0:
		return "now"
	case d > 0:
		return "now+" + d.String()
	default:
		return "now" + d.String()
	}
}

// roundSeconds rounds up, because times pass, but for a second that is lost where only seconds are
// stored.
func roundSeconds(s float64) time.Duration {
	return time.Duration(math.Ceil((s-1)/10)*10) * time.Second
}

// dated replaces today's date in the key of a daily counter.
func dated(key string, now time.Time) string {
	for _, day := range []time.Time{now, now.Add(-time.Minute)} {
		if prefix, ok := strings.CutSuffix(key, ":"+day.UTC().Format(time.DateOnly)); ok {
			return prefix + ":today"
		}
	}
	return key
}

// Snapshot returns every key of the database with exactly what it holds, and whether it has a TTL:
// for tests that nothing changes. Records of answers are left out.
func (r *Redis) Snapshot(t testing.TB) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := r.client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	snapshot := make(map[string]string, len(keys))
	for _, key := range keys {
		if strings.Contains(key, "}:answer:") {
			continue
		}
		value, err := exactValue(ctx, r.client, key)
		if err != nil {
			t.Fatalf("snapshot of %q: %v", key, err)
		}
		snapshot[key] = fmt.Sprintf("%s expires=%t", value, r.client.PTTL(ctx, key).Val() >= 0)
	}
	return snapshot
}

func exactValue(ctx context.Context, client redis.UniversalClient, key string) (string, error) {
	typ, err := client.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	var value any
	switch typ {
	case "string":
		value, err = client.Get(ctx, key).Result()
	case "list":
		value, err = client.LRange(ctx, key, 0, -1).Result()
	case "set":
		var members []string
		members, err = client.SMembers(ctx, key).Result()
		slices.Sort(members)
		value = members
	case "zset":
		value, err = client.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "hash":
		value, err = client.HGetAll(ctx, key).Result() // printed in the order of its fields
	}
	return fmt.Sprintf("%s %q", typ, fmt.Sprint(value)), err
}
