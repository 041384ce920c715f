package bulk

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// Errors of starting an operation.
var (
	ErrClosed = errors.New("the server is shutting down: no new operation is started")
	ErrBusy   = errors.New("too many operations are waiting: try again when some have ended")
)

var (
	errCanceled = errors.New("it was canceled")
	errShutdown = errors.New("the server was shut down: start it again for the rest")
)

const (
	defaultParallel = 4
	defaultKeep     = time.Hour
	maxEnded        = 200 // operations that have ended and are remembered
	maxOpen         = 200 // operations that run or wait
)

// Config is what a Manager needs.
type Config struct {
	Inspector *asynq.Inspector
	Parallel  int              // operations that run at once, of those by filter and of those by ID each; 0: 4
	Keep      time.Duration    // for which ended operations are remembered; 0: an hour
	Now       func() time.Time // nil: time.Now
	Logger    *slog.Logger     // nil: slog.Default()

	// Seen is a task as filters see it, where that is not all of it; it must not change the task. Nil: as it is.
	Seen func(*asynq.TaskInfo) *asynq.TaskInfo
}

// Manager carries operations out, each in the background, and remembers those that have ended for a while. It is safe for concurrent
// use.
type Manager struct {
	cfg    Config
	slots  chan struct{}   // of operations by filter
	picked chan struct{}   // of those by ID: somebody waits for these, and they are soon done
	ctx    context.Context // of all operations
	stop   context.CancelCauseFunc
	open   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	ops     []*operation // in the order of their starts
	changed chan struct{}
}

// operation is the Operation that its goroutine works on. Its fields are guarded by the manager's mu.
type operation struct {
	Operation
	plan   plan
	cancel context.CancelCauseFunc
	ended  chan struct{}
	after  func(Operation)
}

// New returns a manager, which must be closed.
func New(cfg Config) *Manager {
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := &Manager{cfg: cfg, slots: make(chan struct{}, cfg.Parallel), picked: make(chan struct{}, cfg.Parallel), changed: make(chan struct{})}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	return m
}

// Start starts an operation, which goes on whatever becomes of the request that asked for it. after, if it is not nil, is called once
// with the operation when it has ended: it is for the audit log. The error is a *SpecError, ErrBusy or ErrClosed.
func (m *Manager) Start(user string, spec Spec, after func(Operation)) (Operation, error) {
	p, err := spec.plan()
	if err != nil {
		return Operation{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	open := 0
	for _, op := range m.ops {
		if !op.Status.Ended() {
			open++
		}
	}
	switch {
	case m.closed:
		return Operation{}, ErrClosed
	case open >= maxOpen:
		return Operation{}, ErrBusy
	}
	op := &operation{
		Operation: Operation{
			ID: rand.Text(), User: user, Spec: p.Spec, Status: Waiting, Total: -1, Created: m.cfg.Now(),
		},
		plan: p, ended: make(chan struct{}), after: after,
	}
	if len(p.IDs) > 0 {
		op.Total = len(p.IDs)
	}
	ctx, cancel := context.WithCancelCause(m.ctx)
	op.cancel = cancel
	m.ops = append(m.ops, op)
	m.tell()
	m.open.Add(1)
	started := op.Operation
	go m.work(ctx, op)
	return started, nil
}

// Get returns an operation, unless it is not known any more.
func (m *Manager) Get(id string) (Operation, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op := m.find(id); op != nil {
		return op.Operation, true
	}
	return Operation{}, false
}

// List returns all operations that are known, the newest first.
func (m *Manager) List() []Operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	list := make([]Operation, 0, len(m.ops))
	for _, op := range slices.Backward(m.ops) {
		list = append(list, op.Operation)
	}
	return list
}

// Cancel ends an operation soon; what it has changed stays changed. It reports whether the operation is known; one that has ended is
// left as it is.
func (m *Manager) Cancel(id string) (Operation, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	op := m.find(id)
	if op == nil {
		return Operation{}, false
	}
	op.cancel(errCanceled)
	return op.Operation, true
}

// Wait returns an operation when it has ended, or as it is when ctx ends.
func (m *Manager) Wait(ctx context.Context, id string) (Operation, bool) {
	m.mu.Lock()
	op := m.find(id)
	m.mu.Unlock()
	if op == nil {
		return Operation{}, false
	}
	select {
	case <-op.ended:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return op.Operation, true
}

// Changed returns a channel that is closed when something about the operations changes, for one time: ask for it before List.
func (m *Manager) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Close cancels all operations and waits for their end. It may be called again.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop(errShutdown)
	m.open.Wait()
	return nil
}

func (m *Manager) find(id string) *operation {
	m.forget()
	for _, op := range m.ops {
		if op.ID == id {
			return op
		}
	}
	return nil
}

// forget drops operations that have ended long ago, and the oldest where there are too many.
func (m *Manager) forget() {
	ended := 0
	for _, op := range m.ops {
		if op.Status.Ended() {
			ended++
		}
	}
	before := m.cfg.Now().Add(-m.cfg.Keep)
	m.ops = slices.DeleteFunc(m.ops, func(op *operation) bool {
		drop := op.Status.Ended() && (ended > maxEnded || op.Ended.Before(before))
		if drop {
			ended--
		}
		return drop
	})
}

// tell wakes those who wait for a change.
func (m *Manager) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// update changes what is told of an operation.
func (m *Manager) update(op *operation, change func(*Operation)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&op.Operation)
	m.tell()
}
