package loops

import (
	"context"
	"maps"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// PresenceBroker is what a heartbeater needs of rdb.Broker.
type PresenceBroker interface {
	Publish(ctx context.Context, p *rdb.Presence) (forgotten bool, err error)
}

// Heartbeater tells that the server lives, and which tasks it runs. It tells only what changed since the last time.
type Heartbeater struct {
	Broker   PresenceBroker
	Process  wire.Process
	Interval time.Duration
	Info     func() *wire.ServerInfo
	Running  func() []*wire.WorkerInfo

	told map[string]time.Time // task ID → start, as Redis knows it
}

// maxPayload is how large payloads are that are told: workers are listed all at once, and payloads may be megabytes.
const maxPayload = 10_000

// Tick tells.
func (h *Heartbeater) Tick(ctx context.Context) (time.Duration, error) {
	running := h.Running()
	info := h.Info()
	info.ActiveWorkerCount = len(running)
	encoded, err := info.Encode()
	if err != nil {
		return 0, err
	}
	p := &rdb.Presence{Process: h.Process, Info: encoded, Busy: len(running) > 0, Known: len(h.told) > 0, Started: make(map[string][]byte)}
	now := make(map[string]time.Time, len(running))
	for _, w := range running {
		now[w.TaskID] = w.StartTime
		if at, ok := h.told[w.TaskID]; ok && at.Equal(w.StartTime) {
			continue
		}
		if len(w.Payload) > maxPayload {
			w.Payload = nil
		}
		if p.Started[w.TaskID], err = w.Encode(); err != nil {
			return 0, err
		}
	}
	for id := range h.told {
		if _, ok := now[id]; !ok {
			p.Ended = append(p.Ended, id)
		}
	}
	forgotten, err := h.Broker.Publish(ctx, p)
	if err != nil {
		if !rdb.Refused(err) {
			h.doubt(p.Started)
		}
		return 0, err // and the differences are the same next time, and more
	}
	if forgotten {
		// Redis let the old state expire, and knows only what it was told now: the others are to be told again.
		maps.DeleteFunc(now, func(id string, _ time.Time) bool { return p.Started[id] == nil })
	}
	h.told = now
	return h.Interval, nil
}

// doubt notes tasks that Redis may know of or not: next time they are told again or, if they run no more, told to have ended.
func (h *Heartbeater) doubt(started map[string][]byte) {
	if h.told == nil {
		h.told = make(map[string]time.Time)
	}
	for id := range started {
		h.told[id] = time.Time{}
	}
}
