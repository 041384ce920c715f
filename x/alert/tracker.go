package alert

import (
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/health"
)

const (
	// recur is how soon a resolved cause must return to count as flapping.
	recur = time.Hour
	// maxFlaps bounds the growth of Config.Quiet for a flapping cause: 16 times.
	maxFlaps = 4
)

// tracker decides which alerts to send. It uses the time of the reports only.
type tracker struct {
	cfg    Config
	states map[string]*state // by the ID of the cause
}

// state is the history of a cause.
type state struct {
	cause    health.Cause
	first    time.Time       // of the first observation
	last     time.Time       // of the last one
	parts    []string        // that could not be read at the last observation
	severity health.Severity // of the last alert
	sent     time.Time       // the last alert; zero: none
	resolved time.Time       // zero: not resolved
	flaps    int             // how often it returned within recur
}

func newTracker(cfg Config) *tracker { return &tracker{cfg: cfg, states: map[string]*state{}} }

// observe returns the alerts that a report leads to. Reports must be in the order of time.
func (t *tracker) observe(r *health.Report) (alerts []Alert) {
	parts := unread(r.Problems)
	present := map[string]bool{}
	for i := range r.Causes {
		c := &r.Causes[i]
		if c.Severity < t.cfg.Severity {
			continue
		}
		present[c.ID] = true
		if event, ok := t.seen(c, r.At, parts); ok {
			alerts = append(alerts, t.alert(event, t.states[c.ID], r.At))
		}
	}
	for i := range r.Muted {
		if s := t.states[r.Muted[i].ID]; s != nil {
			present[r.Muted[i].ID] = true
			s.last, s.parts = r.At, parts
		}
	}
	for id, s := range t.states {
		if present[id] {
			continue
		}
		if slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(s.parts, part) }) {
			s.last = r.At // unknown: what showed the cause could not be read
			continue
		}
		if t.gone(s, r.At) {
			alerts = append(alerts, t.alert(Resolved, s, r.At))
		}
		if s.forgotten(r.At, t.cfg.After) {
			delete(t.states, id)
		}
	}
	slices.SortFunc(alerts, func(a, b Alert) int { return strings.Compare(a.ID, b.ID) })
	return alerts
}

// seen notes an observation of a cause, and returns whether it leads to an alert.
func (t *tracker) seen(c *health.Cause, at time.Time, parts []string) (Event, bool) {
	s := t.states[c.ID]
	if s == nil {
		s = &state{first: at}
		t.states[c.ID] = s
	}
	if !s.resolved.IsZero() {
		if at.Sub(s.resolved) < recur {
			s.flaps = min(s.flaps+1, maxFlaps)
		} else {
			s.flaps = 0
		}
		s.first, s.sent, s.resolved = at, time.Time{}, time.Time{}
	}
	s.cause, s.last, s.parts = *c, at, parts
	event := Event("")
	switch {
	case s.sent.IsZero() && at.Sub(s.first) >= t.cfg.After:
		event = Began
	case s.sent.IsZero():
		return "", false
	case c.Severity > s.severity:
		event = Worse
	case t.cfg.Reminder > 0 && at.Sub(s.sent) >= t.cfg.Reminder:
		event = Reminder
	default:
		return "", false
	}
	s.sent, s.severity = at, c.Severity
	return event, true
}

// gone reports whether a cause that is not observed any more is now resolved.
func (t *tracker) gone(s *state, at time.Time) bool {
	if s.sent.IsZero() || !s.resolved.IsZero() || at.Sub(s.last) < t.cfg.Quiet<<s.flaps {
		return false
	}
	s.resolved = at
	return true
}

// forgotten reports whether a cause can be removed.
func (s *state) forgotten(at time.Time, after time.Duration) bool {
	if s.sent.IsZero() {
		return at.Sub(s.last) >= after
	}
	return !s.resolved.IsZero() && at.Sub(s.resolved) >= recur
}

func (t *tracker) alert(event Event, s *state, at time.Time) Alert {
	c := &s.cause
	a := Alert{
		Event: event, At: at, Source: t.cfg.Source, Link: t.cfg.Link, ID: c.ID, Kind: c.Kind, Severity: c.Severity, Title: c.Title, Hint: c.Hint,
		Queues: append([]string{}, c.Queues...), Since: c.Since, Evidence: []string{},
	}
	if a.Since.IsZero() {
		a.Since = s.first
	}
	for _, e := range c.Evidence {
		a.Evidence = append(a.Evidence, e.Text)
	}
	return a
}

// unread returns the parts that could not be read, without the errors.
func unread(problems []string) []string {
	parts := make([]string, len(problems))
	for i, p := range problems {
		parts[i], _, _ = strings.Cut(p, ":")
	}
	return parts
}
