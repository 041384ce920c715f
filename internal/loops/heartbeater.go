package loops

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// HeartbeatBroker is the part of rdb.Broker that a Heartbeater uses.
type HeartbeatBroker interface {
	Publish(ctx context.Context, all ...*rdb.Presence)
	Withdraw(ctx context.Context, processes ...wire.Process) error
}

// Server is a snapshot of a server, or of a caller that receives tasks, which is published like
// one.
type Server struct {
	Process wire.Process // names its keys
	Info    *wire.ServerInfo
	Poller  *wire.Poller // nil unless it is a caller with a name

	Patterns []byte // of the types that it handles, encoded; nil: unknown
	Parts    []byte // encoded ServerPartitions; nil: no queue has partitions
	Control  []byte // encoded ServerControl; nil: it knows no commands

	Running []*wire.WorkerInfo
}

// Heartbeater publishes servers and the tasks that they run. It sends only the changes since the
// last heartbeat.
type Heartbeater struct {
	Broker   HeartbeatBroker
	Interval time.Duration
	Snapshot func() []Server // the present ones

	mu    sync.Mutex
	known map[wire.Process]tasks // the servers that may be published
}

// tasks are the published tasks of a server, by field. They are nil if it is not known what Redis
// has: then the next heartbeat replaces them.
type tasks map[string]worker

// worker identifies an attempt.
type worker struct {
	queue   string
	started time.Time
}

// maxPayload is the size of the largest payload that is published. Workers are listed all at once,
// and payloads may have megabytes.
const maxPayload = 10_000

// Tick publishes the present servers, and withdraws those that are gone.
func (h *Heartbeater) Tick(ctx context.Context) (time.Duration, error) {
	presences, now, gone, err := h.prepare(h.Snapshot())
	if err != nil {
		return 0, err
	}
	h.Broker.Publish(ctx, presences...)
	if len(gone) > 0 {
		err = h.Broker.Withdraw(ctx, gone...)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || script.Refused(err) {
		for _, process := range gone {
			delete(h.known, process)
		}
	}
	for i, p := range presences {
		if p.Err != nil {
			err = p.Err // if one call fails, all fail for the same reason
		}
		if p.Forgotten {
			now[i] = nil
		}
		h.known[p.Process] = now[i]
	}
	if err != nil {
		return 0, err
	}
	return h.Interval, nil
}

// prepare returns the heartbeat of each server, with the tasks that Redis has after it, and the
// published servers that are gone.
func (h *Heartbeater) prepare(servers []Server) (presences []*rdb.Presence, now []tasks, gone []wire.Process, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = make(map[wire.Process]tasks)
	}
	absent := maps.Clone(h.known)
	for _, s := range servers {
		known := h.known[s.Process]
		p, running, err := s.changes(known)
		if err != nil {
			return nil, nil, nil, err
		}
		h.known[s.Process] = known // it may be published from here on
		presences, now = append(presences, p), append(now, running)
		delete(absent, s.Process)
	}
	return presences, now, slices.Collect(maps.Keys(absent)), nil
}

// changes returns the changes since the last heartbeat.
func (s *Server) changes(known tasks) (p *rdb.Presence, now tasks, err error) {
	s.Info.ActiveWorkerCount = len(s.Running)
	encoded, err := s.Info.Encode()
	if err != nil {
		return nil, nil, err
	}
	p = &rdb.Presence{
		Process: s.Process, Info: encoded, Poller: s.Poller, Patterns: s.Patterns, Parts: s.Parts, Control: s.Control,
		Busy: len(s.Running) > 0, Known: len(known) > 0, Replace: known == nil,
		Started: make(map[string][]byte),
	}
	slices.SortFunc(s.Running, func(a, b *wire.WorkerInfo) int { // so that each gets the same field again
		return cmp.Or(cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Queue, b.Queue))
	})
	now = make(tasks, len(s.Running))
	for _, w := range s.Running {
		field := w.TaskID
		if _, taken := now[field]; taken {
			field = wire.WorkerField(w.TaskID, w.Queue)
		}
		now[field] = worker{w.Queue, w.StartTime}
		if old, ok := known[field]; ok && old.queue == w.Queue && old.started.Equal(w.StartTime) {
			continue
		}
		if len(w.Payload) > maxPayload {
			w.Payload = nil
		}
		if p.Started[field], err = w.Encode(); err != nil {
			return nil, nil, err
		}
	}
	for field := range known {
		if _, ok := now[field]; !ok {
			p.Ended = append(p.Ended, field)
		}
	}
	return p, now, nil
}

// Processes returns the servers that may be published and are not withdrawn.
func (h *Heartbeater) Processes() []wire.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.known))
}
