package rdb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// statsHour is the hour of the batches of these tests, in the past.
var statsHour = time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)

// statsBatch returns a batch of the queue q.
func statsBatch(number uint64, entries ...rollup.Entry) *rollup.Batch {
	for i := range entries {
		entries[i].Minute += statsHour.Unix() / 60
	}
	return &rollup.Batch{Queue: "q", Number: number, Hour: statsHour.Unix() / 3600, Entries: entries}
}

// addStats sends a batch and requires a code.
func addStats(t testing.TB, b *rdb.Broker, batch *rollup.Batch, want script.Code) {
	t.Helper()
	r := b.AddStats(context.Background(), "sender", []*rollup.Batch{batch})[0]
	if r.Err != nil || r.Code != want || r.Now == 0 {
		t.Fatalf("%+v, want code %d", r, want)
	}
}

// someStats returns random statistics with a few buckets.
func someStats(t *rapid.T) *rollup.Stats {
	s := &rollup.Stats{}
	for i := range s.Counts {
		s.Counts[i] = rapid.Int64Range(0, 1<<40).Draw(t, "count")
	}
	for _, h := range []*rollup.Histogram{&s.Duration, &s.Wait} {
		for range rapid.IntRange(0, 5).Draw(t, "durations") {
			h.Observe(time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "duration")))
		}
	}
	return s
}

// The script adds up as Stats.Merge does, in minutes and hours.
func TestAddStatsMerges(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := rdb.New(r.Client(), "")
		ctx, number := context.Background(), uint64(0)
		b.Enqueue(ctx, redistest.NewTask(t, "q", "t"))
		k := b.Keys("q")
		rapid.Check(t, func(rt *rapid.T) {
			redistest.Must(t, r.Client().Del(ctx, k.StatsMinutes(statsHour), k.StatsHours(statsHour)))
			want := make(map[string]*rollup.Stats)
			for range rapid.IntRange(1, 12).Draw(rt, "calls") {
				number++
				minute, typename := rapid.Int64Range(58, 59).Draw(rt, "minute"), rapid.SampledFrom([]string{"", "a", "b:c"}).Draw(rt, "type")
				s := someStats(rt)
				addStats(t, b, statsBatch(number, rollup.Entry{Minute: minute, Table: rollup.TypeTable, Type: typename, Stats: s}), script.CodeOK)
				for _, name := range []string{"m" + wire.StatsField(int(minute), typename), "h" + wire.StatsField(13, typename)} {
					if want[name] == nil {
						want[name] = &rollup.Stats{}
					}
					want[name].Merge(s)
				}
			}
			got := make(map[string]*rollup.Stats)
			for name, key := range map[string]string{"m": k.StatsMinutes(statsHour), "h": k.StatsHours(statsHour)} {
				for field, text := range r.Client().HGetAll(ctx, key).Val() {
					if _, _, all, ok := wire.ParseStatsField(field); ok && !all {
						got[name+field] = &rollup.Stats{}
						got[name+field].Add(text)
					}
				}
			}
			if diff := cmp.Diff(texts(want), texts(got)); diff != "" {
				rt.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
}

func texts(all map[string]*rollup.Stats) map[string]string {
	m := make(map[string]string)
	for name, s := range all {
		m[name] = s.Encode()
	}
	return m
}

// A repeated call counts once, all keys expire, and nothing is written for a queue that is gone.
func TestAddStatsOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := rdb.New(r.Client(), "")
		ctx := context.Background()
		s := &rollup.Stats{}
		s.Counts[rollup.Succeeded] = 2
		batch := statsBatch(7,
			rollup.Entry{Minute: 3, Table: rollup.QueueTable, Stats: s}, rollup.Entry{Minute: 3, Table: rollup.TypeTable, Type: "t", Stats: s},
			rollup.Entry{Minute: 3, Table: rollup.ErrorTable, Type: "t", Kind: "failed", Count: 5},
		)
		addStats(t, b, batch, script.CodeGone)
		if n := r.Client().DBSize(ctx).Val(); n != 0 {
			t.Fatalf("%d keys of a queue that does not exist", n)
		}
		b.Enqueue(ctx, redistest.NewTask(t, "q", "t"))
		addStats(t, b, batch, script.CodeOK)
		k := b.Keys("q")
		keys := []string{k.StatsMinutes(statsHour), k.StatsHours(statsHour), k.ErrorMinutes(statsHour), k.ErrorHours(statsHour)}
		before := make([]map[string]string, len(keys))
		for i, key := range keys {
			before[i] = r.Client().HGetAll(ctx, key).Val()
			want, ttl := []time.Duration{49 * time.Hour, 31 * 24 * time.Hour}[i%2], r.Client().TTL(ctx, key).Val()
			if ttl > want || ttl < want-time.Minute {
				t.Errorf("%s expires in %v, want %v", key, ttl, want)
			}
		}
		id := rollup.KindID("failed")
		want := []map[string]string{
			{"3": "s=2", "3:t": "s=2", "~sender": "7"}, {"13": "s=2", "13:t": "s=2"},
			{"3:" + id + ":t": "5", "#" + id: "failed"}, {"13:" + id + ":t": "5", "#" + id: "failed"},
		}
		if diff := cmp.Diff(want, before); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		addStats(t, b, batch, script.CodeAlready)
		addStats(t, b, statsBatch(6, batch.Entries[0]), script.CodeAlready) // an older call that lingered in a socket
		for i, key := range keys {
			if diff := cmp.Diff(before[i], r.Client().HGetAll(ctx, key).Val()); diff != "" {
				t.Errorf("a repeated call changed %s (-before +after):\n%s", key, diff)
			}
		}
	})
}

// A hash with too many fields gets no more, except one for all others of a minute. Sums stay exact.
func TestAddStatsLimits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := rdb.New(r.Client(), "")
		ctx := context.Background()
		b.Enqueue(ctx, redistest.NewTask(t, "q", "t"))
		k := b.Keys("q")
		for _, key := range []string{k.StatsMinutes(statsHour), k.ErrorMinutes(statsHour)} {
			for first := 0; first < wire.MaxStatsMinutes-10; first += 1000 {
				var fields []any
				for i := first; i < min(first+1000, wire.MaxStatsMinutes-10); i++ {
					fields = append(fields, "x"+strconv.Itoa(i), "1")
				}
				redistest.Must(t, r.Client().HSet(ctx, key, fields...))
			}
		}
		s := &rollup.Stats{}
		s.Counts[rollup.Retried] = 1
		var entries []rollup.Entry
		for i := range 50 {
			name := fmt.Sprint("type", i)
			entries = append(entries, rollup.Entry{Minute: 1, Table: rollup.TypeTable, Type: name, Stats: s},
				rollup.Entry{Minute: 1, Table: rollup.ErrorTable, Type: name, Kind: "failed", Count: 1})
		}
		addStats(t, b, statsBatch(1, entries...), script.CodeOK)
		var retried, failed int64
		fields := r.Client().HGetAll(ctx, k.StatsMinutes(statsHour)).Val()
		for field, text := range fields {
			if _, _, all, ok := wire.ParseStatsField(field); ok && !all {
				var s rollup.Stats
				s.Add(text)
				retried += s.Counts[rollup.Retried]
			}
		}
		errors := r.Client().HGetAll(ctx, k.ErrorMinutes(statsHour)).Val()
		for field, text := range errors {
			if _, _, _, ok := wire.ParseErrorField(field); ok {
				n, _ := strconv.ParseInt(text, 10, 64)
				failed += n
			}
		}
		var other rollup.Stats
		other.Add(fields[wire.StatsField(1, "")])
		if retried != 50 || failed != 50 || other.Counts[rollup.Retried] != 40 {
			t.Errorf("%d attempts (%d of other types) and %d errors, want 50 (40) and 50", retried, other.Counts[rollup.Retried], failed)
		}
		if len(fields) > wire.MaxStatsMinutes+2 || len(errors) > wire.MaxStatsMinutes+2 {
			t.Errorf("%d and %d fields, want at most %d", len(fields), len(errors), wire.MaxStatsMinutes+2)
		}
	})
}

// The sizes of a queue are stored for the minute of Redis, by the first server that sends them.
func TestAddStatsSizes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := rdb.New(r.Client(), "")
		ctx := context.Background()
		later, grouped := redistest.NewTask(t, "q", "later"), redistest.NewTask(t, "q", "grouped")
		later.ProcessAt, grouped.Group = time.Now().Add(time.Hour).Unix(), "g"
		b.Enqueue(ctx, redistest.NewTask(t, "q", "t"), redistest.NewTask(t, "q", "u"), later, grouped)
		sized := func(at time.Time, number uint64) rollup.Stats {
			batch := &rollup.Batch{Queue: "q", Number: number, Hour: at.Unix() / 3600, Sizes: true, Minute: at.Unix() / 60}
			addStats(t, b, batch, script.CodeOK)
			var s rollup.Stats
			s.Add(r.Client().HGet(ctx, b.Keys("q").StatsMinutes(at), wire.QueueStatsField(at.Minute())).Val())
			return s
		}
		if wrong := sized(time.Now().Add(time.Hour), 1); wrong.Sampled {
			t.Errorf("the sizes of another minute are stored: %+v", wrong)
		}
		now := time.Now()
		got := sized(now, 2)
		if s := got.Sizes; !got.Sampled || s[rollup.Pending] != 2 || s[rollup.Scheduled] != 1 || s[rollup.Aggregating] != 1 || s[rollup.Oldest] > 60_000 {
			t.Errorf("sizes: %+v", got)
		}
		b.Enqueue(ctx, redistest.NewTask(t, "q", "v"))
		if again := sized(now, 3); again.Sizes[rollup.Pending] != 2 {
			t.Errorf("a second server changed the sizes: %+v", again)
		}
	})
}

// A full Redis refuses the whole call. Sent again, it counts once.
func TestAddStatsOnFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), server.Client(t)
	b := rdb.New(client, "")
	b.Enqueue(ctx, redistest.NewTask(t, "q", "t"))
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	s := &rollup.Stats{}
	s.Counts[rollup.Succeeded] = 1
	batch := statsBatch(1, rollup.Entry{Minute: 1, Table: rollup.TypeTable, Type: "t", Stats: s})
	before := redistest.Dump(t, client)
	if reply := b.AddStats(ctx, "sender", []*rollup.Batch{batch})[0]; !script.IsFull(reply.Err) {
		t.Errorf("%+v, want that Redis is full", reply)
	}
	if diff := cmp.Diff(before, redistest.Dump(t, client)); diff != "" {
		t.Errorf("a refused call wrote (-before +after):\n%s", diff)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	addStats(t, b, batch, script.CodeOK)
	if got := client.HGet(ctx, b.Keys("q").StatsHours(statsHour), wire.StatsField(13, "t")).Val(); got != "s=1" {
		t.Errorf("%q, want s=1", got)
	}
}

// BenchmarkAddStats measures what the statistics of 1,000 types in five queues cost Redis: a flush
// with 10 buckets for each, and the same again in the same minute.
func BenchmarkAddStats(b *testing.B) {
	server := redistest.StartServer(b)
	client := server.Client(b)
	broker := rdb.New(client, "")
	ctx, number := context.Background(), uint64(0)
	var batches []*rollup.Batch
	for q := range 5 {
		name := fmt.Sprint("q", q)
		broker.Enqueue(ctx, redistest.NewTask(b, name, "t"))
		batch := statsBatch(0)
		batch.Queue = name
		for i := range 200 {
			s := &rollup.Stats{}
			for range 100 {
				s.Counts[rollup.Succeeded]++
				s.Duration.Observe(time.Duration(1+rand.IntN(5)) * 10 * time.Millisecond)
				s.Wait.Observe(time.Duration(1+rand.IntN(5)) * time.Millisecond)
			}
			batch.Entries = append(batch.Entries, rollup.Entry{Minute: statsHour.Unix()/60 + 1, Table: rollup.TypeTable, Type: fmt.Sprint("email:welcome", i), Stats: s})
		}
		batches = append(batches, batch)
	}
	before := redisCPU(b, client)
	for b.Loop() {
		number++
		now := time.Now()
		for _, batch := range batches {
			batch.Number, batch.Hour = number, now.Unix()/3600
			for i := range batch.Entries {
				batch.Entries[i].Minute = now.Unix() / 60
			}
		}
		for _, r := range broker.AddStats(ctx, "sender", batches) {
			if r.Err != nil || r.Code != script.CodeOK {
				b.Fatal(r)
			}
		}
	}
	cpu := (redisCPU(b, client) - before) / float64(b.N) / 1000
	b.ReportMetric(cpu*1e6, "redis-µs/type")
}
