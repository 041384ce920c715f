package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// shortLived is the time to live below which a key is ignored: it may have expired in one of the
// runs.
const shortLived = 5 * time.Second

// dump records the contents of Redis: each key with its type, time to live and value, and each
// field of a hash.
func (s *site) dump() {
	ctx := context.Background()
	s.step = "redis "
	keys, err := s.redis.Keys(ctx, "*").Result()
	if err != nil {
		s.see("error", err)
		return
	}
	// Two round trips: the types, then the contents.
	kinds, ttls := make([]*redis.StatusCmd, len(keys)), make([]*redis.Cmd, len(keys))
	p := s.redis.Pipeline()
	for i, key := range keys {
		kinds[i], ttls[i] = p.Type(ctx, key), p.Do(ctx, "PTTL", key)
	}
	_, _ = p.Exec(ctx) // commands have their own errors
	contents := make([]redis.Cmder, len(keys))
	for i, key := range keys {
		contents[i] = content(ctx, p, kinds[i].Val(), key)
	}
	_, _ = p.Exec(ctx)
	var all [][]Observation
	for i, key := range keys {
		ttl, err := ttls[i].Int64() // in ms; exceeds a Duration
		if err != nil || ttl > 0 && ttl < shortLived.Milliseconds() {
			continue
		}
		kind := kinds[i].Val()
		if kind == "none" {
			continue // expired meanwhile
		}
		if ttl > 0 {
			kind += fmt.Sprintf(" for ⟦%.1f⟧", float64(ttl)/1000)
		}
		all = append(all, s.dumpKey(key, kind, contents[i]))
	}
	// Keys have random parts, which must not affect the order.
	slices.SortFunc(all, func(a, b []Observation) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, o := range slices.Concat(all...) {
		s.see(o.Aspect, o.Value)
	}
}

// content queues the command that reads a key.
func content(ctx context.Context, p redis.Pipeliner, kind, key string) redis.Cmder {
	switch kind {
	case "string":
		return p.Get(ctx, key)
	case "list":
		return p.LRange(ctx, key, 0, -1)
	case "set":
		return p.SMembers(ctx, key)
	case "zset":
		return p.ZRangeWithScores(ctx, key, 0, -1)
	default:
		return p.HGetAll(ctx, key)
	}
}

// dumpKey returns the contents of a key; said is its type and time to live.
func (s *site) dumpKey(key, said string, content redis.Cmder) (seen []Observation) {
	name := s.plain(key)
	see := func(aspect, value string) { seen = append(seen, Observation{aspect, value}) }
	switch content := content.(type) {
	case *redis.StringCmd:
		value := content.Val()
		if strings.HasPrefix(key, "asynq:servers:{") {
			value = s.proto([]byte(value), 8)
		}
		see(name, said+" "+s.text(value))
	case *redis.StringSliceCmd:
		var all []string
		for _, v := range content.Val() {
			if strings.HasPrefix(key, "asynq:schedulers:{") {
				v = s.proto([]byte(v), 6, 7)
			}
			all = append(all, s.text(v))
		}
		if strings.HasPrefix(said, "set") {
			slices.Sort(all)
		}
		see(name, fmt.Sprintf("%s %v", said, all))
	case *redis.ZSliceCmd:
		var all []string
		for _, z := range content.Val() {
			all = append(all, s.member(key, z))
		}
		see(name, fmt.Sprintf("%s %v", said, all))
	case *redis.MapStringStringCmd:
		fields := content.Val()
		see(name, said)
		for _, field := range sortedKeys(fields) {
			value := fields[field]
			switch {
			case strings.HasPrefix(key, "asynq:workers:{"):
				value = s.proto([]byte(value), 8, 9)
			case field == "msg":
				value = s.message([]byte(value))
			default:
				value = s.text(value)
			}
			see(name+" "+s.plain(field), value)
		}
	}
	return seen
}

func (s *site) member(key string, z redis.Z) string {
	member := fmt.Sprint(z.Member)
	if strings.HasPrefix(key, "asynq:scheduler_history:") {
		member = s.proto([]byte(member), 2)
	}
	score := strconv.FormatFloat(z.Score, 'f', -1, 64)
	if n := int64(z.Score); float64(n) == z.Score {
		score = s.number(n)
	}
	return s.text(member) + "=" + score
}

// text formats a string, with integers that are points in time as distances.
func (s *site) text(v string) string {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return s.number(n)
	}
	return s.plain(v)
}

// headersField is the map in a task message.
const headersField = 15

// timeFields are the points in time in a task message: deadline, last failure, completion.
var timeFields = []protowire.Number{9, 11, 13}

// message formats a task message.
func (s *site) message(b []byte) string {
	var fields, headers []string
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Sprintf("no message: %q", b)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return fmt.Sprintf("no message: %q", b)
			}
			b = b[n:]
			value := fmt.Sprint(int64(v)) // #nosec G115 -- the encoding of an int64
			if slices.Contains(timeFields, number) {
				value = s.number(int64(v)) // #nosec G115 -- the encoding of an int64
			}
			fields = append(fields, fmt.Sprintf("%d:%s", number, value))
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return fmt.Sprintf("no message: %q", b)
			}
			b = b[n:]
			if number == headersField {
				headers = append(headers, fmt.Sprintf("%d:{%s}", number, s.message(v)))
			} else {
				fields = append(fields, fmt.Sprintf("%d:%q", number, s.plain(string(v))))
			}
		default:
			return fmt.Sprintf("no message: %q", b)
		}
	}
	slices.Sort(headers)
	return strings.Join(append(fields, headers...), " ")
}

// proto formats a message. The named fields are points in time, and field 5 may be a map.
func (s *site) proto(b []byte, times ...protowire.Number) string {
	var fields []string
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "no message"
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return "no message"
		}
		value := b[:n]
		b = b[n:]
		switch {
		case kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			fields = append(fields, fmt.Sprintf("%d:%d", number, v))
		case slices.Contains(times, number):
			v, _ := protowire.ConsumeBytes(value)
			fields = append(fields, fmt.Sprintf("%d:%s", number, s.timestamp(v)))
		case kind == protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			fields = append(fields, fmt.Sprintf("%d:%q", number, s.plain(string(v))))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// timestamp formats a google.protobuf.Timestamp.
func (s *site) timestamp(b []byte) string {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "no time"
		}
		b = b[n:]
		if number == 1 && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			return s.number(int64(v)) // #nosec G115 -- the encoding of an int64
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return "no time"
		}
		b = b[n:]
	}
	return "epoch"
}
