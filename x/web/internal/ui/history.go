package ui

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/poll"
	"github.com/asynq-go/asynq/x/web/internal/show"
	"github.com/asynq-go/asynq/x/web/internal/trend"
)

// history returns metrics over time, as servers have recorded them or, where they have not, as the
// poller has seen them. The note says if and why the series is incomplete.
func (u *UI) history(ctx context.Context, of trend.Subject, names []string, span time.Duration) (s trend.Series, note string) {
	state := u.state()
	recorded := func(r trend.Range) (trend.Series, error) {
		all, err := u.trends.History(ctx, of, r, state)
		return all.Only(names), err
	}
	switch {
	case !recordable(names):
		return u.seen(of.Queue, names, span), ""
	case span > sparkSpan:
		s, err := recorded(trend.RangeOf(span))
		if s.Known || of.OfType {
			return s, u.gaps(of, trend.RangeOf(span), state, err)
		}
		return u.seen(of.Queue, names, span), onlySeen(err)
	case of.OfType:
		s, err := recorded(trend.Hour)
		return s.Since(u.now().Add(-span).Unix()), u.gaps(of, trend.Hour, state, err)
	}
	s = u.seen(of.Queue, names, span)
	for _, name := range names {
		if line := s.Values[name]; len(line) == 0 || math.IsNaN(line[0]) { // from before this web UI was started
			if before, _ := recorded(trend.Hour); before.Known {
				s.Fill(before)
				s.Known = true
			}
			break
		}
	}
	return s, ""
}

// recordable reports whether servers record all these metrics.
func recordable(names []string) bool {
	for _, name := range names {
		if _, ok := trend.ParseMetric(name); !ok {
			return false
		}
	}
	return true
}

// seen returns metrics as the poller has seen them. Metrics that it does not have are gaps.
func (u *UI) seen(queue string, names []string, span time.Duration) trend.Series {
	var metrics []poll.Metric
	for _, name := range names {
		if m, ok := poll.ParseMetric(name); ok {
			metrics = append(metrics, m)
		}
	}
	h := u.Poller.History(queue, metrics, span)
	s := trend.Series{Known: h.Known, Step: h.Step, Times: h.Times, Values: make(map[string][]float64, len(names))}
	for m, line := range h.Values {
		s.Values[m.String()] = line
	}
	return s.Only(names)
}

// state returns the state of the system for reading statistics.
func (u *UI) state() trend.State {
	s := u.Poller.Latest()
	return trend.State{Queues: len(s.Queues), Down: s.Err != nil, Paused: func(name string) bool {
		q, ok := s.Queue(name)
		return ok && q.Info != nil && q.Info.Paused
	}}
}

// onlySeen explains why charts show what the poller has seen.
func onlySeen(err error) string {
	const since = "The charts begin when this web UI was started: "
	if err != nil {
		return since + "statistics are unavailable: " + sentence(show.RedisError(err))
	}
	return since + "no server has recorded statistics in this time range."
}

// startUp is how long a server may run before it has recorded statistics.
const startUp = 3 * time.Minute

// gaps returns what recorded statistics do not include, such as queues whose servers record none.
func (u *UI) gaps(of trend.Subject, r trend.Range, state trend.State, err error) string {
	if err != nil {
		return "Some statistics are unavailable: " + sentence(show.RedisError(err))
	}
	if of.Queue != "" || of.OfType {
		return ""
	}
	missing := make(map[string]bool)
	for _, server := range u.Poller.Latest().Servers {
		for queue := range server.Queues {
			if server.Worker == "" && u.now().Sub(server.Started) > startUp && !u.trends.Recorded(r, state, queue) {
				missing[queue] = true
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("Without %s whose servers record no statistics.", strings.ToLower(show.Plural(int64(len(missing)), "queue")))
}
