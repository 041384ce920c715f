package loops

import (
	"context"
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

// Tick tells.
func (h *Heartbeater) Tick(ctx context.Context) (time.Duration, error) {
	running := h.Running()
	info := h.Info()
	info.ActiveWorkerCount = len(running)
	encoded, err := info.Encode()
	if err != nil {
		return 0, err
	}
	p := &rdb.Presence{Process: h.Process, Info: encoded, Busy: len(running) > 0, Started: make(map[string][]byte)}
	now := make(map[string]time.Time, len(running))
	for _, w := range running {
		now[w.TaskID] = w.StartTime
		if at, ok := h.told[w.TaskID]; ok && at.Equal(w.StartTime) {
			continue
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
	if forgotten || err != nil {
		// Tell everything next time: Redis may have let the old state expire.
		now = nil
	}
	h.told = now
	return h.Interval, err
}
