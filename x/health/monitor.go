package health

import (
	"context"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
)

// Monitor checks one Redis again and again. It remembers what it needs of earlier checks: about
// 1.3 kB for each of up to 1,000 queues. It is not safe for concurrent use.
type Monitor struct {
	settings Settings
	memory   *memory
}

// NewMonitor returns a monitor. It returns an error if the settings are invalid, see
// Settings.Validate.
func NewMonitor(s Settings) (*Monitor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Monitor{settings: s.withDefaults(), memory: newMemory()}, nil
}

// Check returns the causes of the problems in an input and in earlier ones. Call it every few
// seconds.
func (m *Monitor) Check(in *Input) *Report {
	m.memory.note(in, m.settings)
	d := &diagnosis{in: in, m: m.memory, s: m.settings, served: serving(in)}
	r := &Report{At: in.At, Causes: []Cause{}, Muted: []Cause{}, Problems: in.Problems.list()}
	mutes := make(map[string]*asynq.Mute, len(in.Mutes))
	for _, mute := range in.Mutes {
		if mute.Until.IsZero() || mute.Until.After(in.At) {
			mutes[mute.ID] = mute
		}
	}
	for _, c := range d.causes() {
		mute := mutes[c.ID]
		if mute == nil {
			r.Causes = append(r.Causes, c)
			continue
		}
		c.Mute = newMute(mute)
		r.Muted = append(r.Muted, c)
		m.memory.acked[c.ID] = in.At
	}
	if in.Err == nil && in.Problems.Mutes == nil {
		r.Ended = m.ended(in.At, mutes)
	}
	return r
}

// ended returns the acknowledged causes that have been gone for a trend.
func (m *Monitor) ended(now time.Time, mutes map[string]*asynq.Mute) []string {
	var ended []string
	for id, mute := range mutes {
		seen, ok := m.memory.acked[id]
		if !ok {
			seen = m.memory.began
		}
		if mute.At.After(seen) {
			seen = mute.At
		}
		if mute.Until.IsZero() && now.Sub(seen) > m.settings.Trend {
			ended = append(ended, id)
		}
	}
	for id := range m.memory.acked {
		if mutes[id] == nil {
			delete(m.memory.acked, id)
		}
	}
	slices.Sort(ended)
	return ended
}

// Check reads the state of queues, servers and Redis, see Collect, and returns the causes of their
// problems, except those that only a Monitor finds. If Redis is unreachable, that is the cause. It
// returns an error if the settings are invalid.
func Check(ctx context.Context, i *asynq.Inspector, s Settings) (*Report, error) {
	m, err := NewMonitor(s)
	if err != nil {
		return nil, err
	}
	return m.Check(Collect(ctx, i, s)), nil
}
