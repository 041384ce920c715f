package main

import (
	"context"
	"crypto/md5" // #nosec G501 -- part of the wire format
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// task is a task that is written to Redis according to docs/WIRE.md, so that both libraries find
// the same.
type task struct {
	queue, id, kind       string
	payload               string
	maxRetry, retried     int64
	lastErr               string
	lastFailed, completed time.Time
	timeout, retention    time.Duration
	deadline              time.Time
	unique                bool
	group, result         string
	headers               map[string]string
	state                 string
	score                 time.Time
}

func (t *task) uniqueKey() string {
	sum := md5.Sum([]byte(t.payload)) // #nosec G401 -- part of the wire format
	return queueKey(t.queue, "unique:"+t.kind+":"+hex.EncodeToString(sum[:]))
}

func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

func (t *task) message() (b []byte) {
	text := func(number protowire.Number, v string) {
		if v != "" {
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		}
	}
	integer := func(number protowire.Number, v int64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v)) // #nosec G115 -- the wire format
		}
	}
	moment := func(number protowire.Number, v time.Time) {
		if !v.IsZero() {
			integer(number, v.Unix())
		}
	}
	text(1, t.kind)
	text(2, t.payload)
	text(3, t.id)
	text(4, t.queue)
	integer(5, t.maxRetry)
	integer(6, t.retried)
	text(7, t.lastErr)
	integer(8, int64(t.timeout/time.Second))
	moment(9, t.deadline)
	if t.unique {
		text(10, t.uniqueKey())
	}
	moment(11, t.lastFailed)
	integer(12, int64(t.retention/time.Second))
	moment(13, t.completed)
	text(14, t.group)
	for _, k := range sortedKeys(t.headers) {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), k)
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), t.headers[k])
		b = protowire.AppendBytes(protowire.AppendTag(b, headersField, protowire.BytesType), entry)
	}
	return b
}

// put writes tasks to Redis.
func (s *site) put(tasks ...*task) {
	ctx := context.Background()
	p := s.redis.Pipeline()
	for _, t := range tasks {
		p.SAdd(ctx, "asynq:queues", t.queue)
		key := queueKey(t.queue, "t:"+t.id)
		fields := map[string]any{"msg": t.message(), "state": t.state}
		if t.unique {
			fields["unique_key"] = t.uniqueKey()
			p.Set(ctx, t.uniqueKey(), t.id, time.Hour)
		}
		if t.group != "" {
			fields["group"] = t.group
		}
		if t.result != "" {
			fields["result"] = t.result
		}
		score := redis.Z{Member: t.id, Score: float64(t.score.Unix())}
		switch t.state {
		case "pending":
			fields["pending_since"] = t.score.UnixNano()
			p.LPush(ctx, queueKey(t.queue, "pending"), t.id)
		case "active":
			p.LPush(ctx, queueKey(t.queue, "active"), t.id)
			p.ZAdd(ctx, queueKey(t.queue, "lease"), score)
		case "aggregating":
			p.SAdd(ctx, queueKey(t.queue, "groups"), t.group)
			p.ZAdd(ctx, queueKey(t.queue, "g:"+t.group), score)
		default:
			p.ZAdd(ctx, queueKey(t.queue, t.state), score)
		}
		p.HSet(ctx, key, fields)
	}
	s.must(p)
}

// must ends the row if a Redis command fails.
func (s *site) must(p redis.Pipeliner) {
	if _, err := p.Exec(context.Background()); err != nil {
		panic(fmt.Sprintf("seeding: %v", err))
	}
}

// States of tasks, as stored in Redis.
var states = []string{"active", "pending", "scheduled", "retry", "archived", "completed", "aggregating"}

// newTask returns the nth task of a state.
func (s *site) newTask(queue, state string, n int) *task {
	second := s.start.Truncate(time.Second)
	hours := time.Duration(n) * time.Hour
	t := &task{queue: queue, id: fmt.Sprintf("%s%d", state, n), kind: "kind:" + state, payload: fmt.Sprintf("payload %d", n), maxRetry: 25,
		timeout: 30 * time.Minute, state: state, score: second.Add(hours)}
	switch state {
	case "active":
		t.score = second.Add(30 * time.Second)
		t.headers = map[string]string{"a": "1", "b": "2"}
	case "pending":
		t.score = second.Add(-time.Hour + time.Duration(n)*time.Second)
		t.unique = n == 1
	case "scheduled":
		t.unique = n == 1
		t.deadline, t.timeout = second.Add(100*time.Hour), 0
	case "retry":
		t.retried, t.lastErr, t.lastFailed = 2, "failed", second.Add(-hours)
	case "archived":
		t.score = second.Add(-100*time.Hour + hours)
		t.retried, t.lastErr, t.lastFailed = 25, "retries exhausted", t.score
	case "completed":
		t.retention, t.completed, t.result = 240*time.Hour, second.Add(-100*time.Hour+hours), "result"
		t.score = t.completed.Add(t.retention)
	case "aggregating":
		t.group, t.score = "g", second.Add(-10*time.Minute+time.Duration(n)*time.Second)
	}
	return t
}

// many is the number of tasks per state in the queue "many": more than a page.
const many = 33

// seed creates the queues "default" with three tasks of each state and two groups, "other" with a
// pending task, "empty" and "paused".
func (s *site) seed() {
	ctx := context.Background()
	for _, state := range states {
		for n := range 3 {
			s.put(s.newTask("default", state, n+1))
		}
	}
	second := s.newTask("default", "aggregating", 4)
	second.group, second.id = "h", "h1"
	orphan := s.newTask("default", "active", 4)
	orphan.id, orphan.score = "orphan", s.start.Add(-time.Minute)
	retried := s.newTask("other", "pending", 1)
	s.put(second, orphan, retried)
	p := s.redis.Pipeline()
	p.SAdd(ctx, "asynq:queues", "empty", "paused")
	p.Set(ctx, queueKey("paused", "paused"), s.start.Unix(), 0)
	for day := range 4 {
		date := s.start.UTC().AddDate(0, 0, -day).Format(time.DateOnly)
		p.Set(ctx, queueKey("default", "processed:"+date), 10+day, time.Duration(90-day)*24*time.Hour)
		p.Set(ctx, queueKey("default", "failed:"+date), day, time.Duration(90-day)*24*time.Hour)
	}
	p.Set(ctx, queueKey("default", "processed"), 1000, 0)
	p.Set(ctx, queueKey("default", "failed"), 100, 0)
	s.must(p)
}

// seedMany creates the queue "many", with more than a page of tasks of each state.
func (s *site) seedMany() {
	var all []*task
	for _, state := range states {
		for n := range many {
			all = append(all, s.newTask("many", state, n+1))
		}
	}
	s.put(all...)
}

// seedBroken creates the queue "broken": tasks without a hash, with an invalid message, and a key
// of the wrong type.
func (s *site) seedBroken() {
	ctx := context.Background()
	p, lately := s.redis.Pipeline(), float64(s.start.Add(-time.Hour).Unix())
	p.SAdd(ctx, "asynq:queues", "broken")
	p.LPush(ctx, queueKey("broken", "pending"), "no hash", "no message")
	p.HSet(ctx, queueKey("broken", "t:no message"), "msg", "\xff\xff", "state", "pending")
	p.ZAdd(ctx, queueKey("broken", "archived"), redis.Z{Member: "no hash either", Score: lately - 1},
		redis.Z{Member: "no archived message", Score: lately})
	p.HSet(ctx, queueKey("broken", "t:no archived message"), "msg", "\xff\xff", "state", "archived")
	p.HSet(ctx, queueKey("broken", "t:no state"), "msg", (&task{queue: "broken", id: "no state", kind: "k"}).message())
	p.Set(ctx, queueKey("broken", "scheduled"), "no set", 0)
	s.must(p)
}
