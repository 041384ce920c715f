package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/wire"
)

// Period is a minute or an hour.
type Period struct {
	Start  time.Time
	Length time.Duration
}

// minutesKept is how long statistics of minutes are read, a little less than they are kept.
const minutesKept = wire.StatsMinutesTTL - time.Hour

// fine reports whether the statistics of minutes go back to a time.
func fine(from, now time.Time) bool { return !from.Before(now.Add(-minutesKept)) }

// periods returns the periods that cover the time between from and to: minutes, or hours if they go
// back too far.
func periods(from, to, now time.Time) []Period {
	length := time.Hour
	if fine(from, now) {
		length = time.Minute
	}
	return split(from, to, length)
}

func split(from, to time.Time, length time.Duration) (all []Period) {
	for at := from.UTC().Truncate(length); at.Before(to); at = at.Add(length) {
		all = append(all, Period{Start: at, Length: length})
	}
	return all
}

// coarsePeriods returns the periods that cover the time between from and to, hours where it
// contains them whole and minutes otherwise, if these go back far enough.
func coarsePeriods(from, to, now time.Time) (all []Period) {
	for _, h := range split(from, to, time.Hour) {
		end := h.Start.Add(time.Hour)
		whole := !from.After(h.Start) && (!to.Before(end) || !to.Before(now))
		if whole || !fine(h.Start, now) {
			all = append(all, h)
		} else {
			all = append(all, split(later(from, h.Start), earlier(to, end), time.Minute)...)
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// at returns the number of the period in its hash.
func (p Period) at() int {
	if p.Length == time.Minute {
		return p.Start.Minute()
	}
	return p.Start.Hour()
}

// statsKey and errorsKey return the hash that has the statistics or errors of the period.
func (p Period) statsKey(k wire.Queue) string {
	if p.Length == time.Minute {
		return k.StatsMinutes(p.Start)
	}
	return k.StatsHours(p.Start)
}

func (p Period) errorsKey(k wire.Queue) string {
	if p.Length == time.Minute {
		return k.ErrorMinutes(p.Start)
	}
	return k.ErrorHours(p.Start)
}

// Point is the statistics of one period, of a queue or a type.
type Point struct {
	Queue string
	Period
	rollup.Stats
}

// TypeStats are the statistics of a type of tasks.
type TypeStats struct {
	Queue, Type string
	rollup.Stats
}

// ErrorStats count the errors of one kind and type. An empty kind or type stands for all that are
// not counted by themselves.
type ErrorStats struct {
	Queue, Kind, Type string
	Count             int64
	First, Last       time.Time // starts of the first and the last period
}

// QueueHistory returns the statistics of queues by minute, or by hour if from is too long ago, by
// queue and oldest first. With an error, it also returns those that it has read.
func (b *Inspector) QueueHistory(ctx context.Context, queues []string, from, to time.Time) ([]Point, error) {
	return b.points(ctx, queues, from, to, wire.QueueStatsField)
}

// TypeHistory is QueueHistory for one type of tasks.
func (b *Inspector) TypeHistory(ctx context.Context, queues []string, typename string, from, to time.Time) ([]Point, error) {
	return b.points(ctx, queues, from, to, func(at int) string { return wire.StatsField(at, typename) })
}

// The limits of the fields that one command reads, and of the commands of one pipeline.
const (
	hashPage     = 500
	hashesAtOnce = 50
)

func (b *Inspector) points(ctx context.Context, queues []string, from, to time.Time, field func(at int) string) ([]Point, error) {
	type page struct {
		queue   string
		periods []Period
	}
	var pages []page
	for _, queue := range queues {
		for _, p := range periods(from, to, time.Now()) {
			k := b.Keys(queue)
			if n := len(pages); n > 0 && pages[n-1].queue == queue && pages[n-1].periods[0].statsKey(k) == p.statsKey(k) {
				pages[n-1].periods = append(pages[n-1].periods, p)
			} else {
				pages = append(pages, page{queue, []Period{p}})
			}
		}
	}
	read := func(pipe redis.Pipeliner, of page) *redis.SliceCmd {
		fields := make([]string, len(of.periods))
		for i, p := range of.periods {
			fields[i] = field(p.at())
		}
		return pipe.HMGet(ctx, of.periods[0].statsKey(b.Keys(of.queue)), fields...)
	}
	var points []Point
	var failed []error
	for i, reply := range pipelined(ctx, b.Client(), hashesAtOnce, pages, read) {
		values, err := reply.Result()
		if err != nil {
			failed = append(failed, fmt.Errorf("inspect: reading the statistics of queue %q: %w", pages[i].queue, err))
			continue
		}
		for j, p := range pages[i].periods {
			if text, ok := values[j].(string); ok {
				point := Point{Queue: pages[i].queue, Period: p}
				point.Add(text)
				points = append(points, point)
			}
		}
	}
	return points, errors.Join(failed...)
}

// TypeStats returns the statistics of all types of queues. With an error, it also returns those
// that it has read.
func (b *Inspector) TypeStats(ctx context.Context, queues []string, from, to time.Time) ([]*TypeStats, error) {
	type name struct{ queue, typename string }
	known := make(map[name]*TypeStats)
	var all []*TypeStats
	err := b.scanPeriods(ctx, queues, coarsePeriods(from, to, time.Now()), Period.statsKey, func(queue, field, value string, wanted func(at int) *Period) {
		at, typename, whole, ok := wire.ParseStatsField(field)
		if !ok || whole || wanted(at) == nil {
			return
		}
		of := name{queue, typename}
		if known[of] == nil {
			known[of] = &TypeStats{Queue: queue, Type: typename}
			all = append(all, known[of])
		}
		known[of].Add(value)
	})
	return all, err
}

// ErrorStats returns how many errors of each kind and type there were, most first. With an error,
// it also returns those that it has read.
func (b *Inspector) ErrorStats(ctx context.Context, queues []string, from, to time.Time) ([]*ErrorStats, error) {
	type name struct{ queue, kind, typename string }
	type count struct {
		name
		n int64
		p Period
	}
	var counts []count
	texts := make(map[string]string)
	err := b.scanPeriods(ctx, queues, periods(from, to, time.Now()), Period.errorsKey, func(queue, field, value string, wanted func(at int) *Period) {
		if kind, ok := wire.ParseErrorTextField(field); ok {
			texts[kind] = value
			return
		}
		if at, kind, typename, ok := wire.ParseErrorField(field); ok {
			if p := wanted(at); p != nil {
				counts = append(counts, count{name{queue, kind, typename}, counterValue(value), *p})
			}
		}
	})
	known := make(map[name]*ErrorStats)
	var all []*ErrorStats
	for _, c := range counts {
		c.kind = texts[c.kind] // "" if it is missing
		s := known[c.name]
		if s == nil {
			s = &ErrorStats{Queue: c.queue, Kind: c.kind, Type: c.typename, First: c.p.Start, Last: c.p.Start}
			known[c.name] = s
			all = append(all, s)
		}
		s.Count += c.n
		s.First, s.Last = earlier(s.First, c.p.Start), later(s.Last, c.p.Start)
	}
	slices.SortFunc(all, func(a, b *ErrorStats) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Type, b.Type))
	})
	return all, err
}

// scanPeriods reads the hashes of periods of queues in pages, all hashes in one pipeline, and calls
// f for each field once. wanted returns the period of its number, nil if it is none of them.
func (b *Inspector) scanPeriods(ctx context.Context, queues []string, all []Period, key func(Period, wire.Queue) string,
	f func(queue, field, value string, wanted func(at int) *Period),
) error {
	type hash struct {
		queue, key string
		periods    []Period
		cursor     uint64
		seen       map[string]bool // nil until there is a second page
	}
	var open []*hash
	for _, queue := range queues {
		for _, p := range all {
			k := key(p, b.Keys(queue))
			if n := len(open); n > 0 && open[n-1].queue == queue && open[n-1].key == k {
				open[n-1].periods = append(open[n-1].periods, p)
			} else {
				open = append(open, &hash{queue: queue, key: k, periods: []Period{p}, seen: make(map[string]bool)})
			}
		}
	}
	var failed []error
	for len(open) > 0 {
		read := func(pipe redis.Pipeliner, h *hash) *redis.ScanCmd {
			return pipe.HScan(ctx, h.key, h.cursor, "", hashPage)
		}
		var left []*hash
		for i, reply := range pipelined(ctx, b.Client(), hashesAtOnce, open, read) {
			h := open[i]
			fields, next, err := reply.Result()
			if err != nil {
				failed = append(failed, fmt.Errorf("inspect: reading the statistics of queue %q: %w", h.queue, err))
				continue
			}
			wanted := func(at int) *Period {
				for i := range h.periods {
					if h.periods[i].at() == at {
						return &h.periods[i]
					}
				}
				return nil
			}
			for j := 0; j+1 < len(fields); j += 2 {
				if !h.seen[fields[j]] {
					h.seen[fields[j]] = true
					f(h.queue, fields[j], fields[j+1], wanted)
				}
			}
			if h.cursor = next; next != 0 {
				left = append(left, h)
			}
		}
		open = left
	}
	return errors.Join(failed...)
}
