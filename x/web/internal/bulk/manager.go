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

// Errors of Start.
var (
	ErrClosed = errors.New("the server is shutting down and starts no new operations")
	ErrBusy   = errors.New("too many operations are queued: try again when some have finished")
)

var (
	errCanceled    = errors.New("it was canceled")
	errArchiveFull = errors.New("the archive is full: archiving more tasks deletes the oldest ones")
	errShutdown    = errors.New("the server was shut down: start the operation again for the remaining tasks")
)

const (
	defaultParallel = 4
	defaultKeep     = time.Hour
	maxEnded        = 200 // finished operations that are kept
	maxOpen         = 200 // running and waiting operations
)

// Config configures a Manager.
type Config struct {
	Inspector *asynq.Inspector
	Parallel  int              // concurrent operations, separately for filters and for IDs; default 4
	Keep      time.Duration    // how long finished operations are kept; default one hour
	Now       func() time.Time // default time.Now
	Logger    *slog.Logger     // default slog.Default()

	// Seen returns a task as filters may see it, such as redacted. It must not modify the task. If
	// nil, filters see the task itself.
	Seen func(*asynq.TaskInfo) *asynq.TaskInfo
}

// Manager runs operations in the background and keeps finished ones for a while. It is safe for
// concurrent use.
type Manager struct {
	cfg   Config
	slots chan struct{}   // slots of operations by filter
	byID  chan struct{}   // slots of operations by ID: users wait for these, and they are short
	ctx   context.Context // for all operations
	stop  context.CancelCauseFunc
	open  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	ops     []*operation // in the order of their starts
	changed chan struct{}
}

// operation is an Operation with its goroutine's state. Its fields are guarded by the manager's mu.
type operation struct {
	Operation
	plan   plan
	cancel context.CancelCauseFunc
	ended  chan struct{}
	after  func(Operation)
}

// New returns a manager. The caller must close it.
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
	m := &Manager{cfg: cfg, slots: make(chan struct{}, cfg.Parallel), byID: make(chan struct{}, cfg.Parallel), changed: make(chan struct{})}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	return m
}

// Start starts an operation, which continues after the request has ended. If after is not nil, it
// is called once with the finished operation, for the audit log. The error is a *SpecError, ErrBusy
// or ErrClosed.
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
	m.notify()
	m.open.Add(1)
	started := op.Operation
	go m.work(ctx, op)
	return started, nil
}

// Get returns an operation, unless it was removed.
func (m *Manager) Get(id string) (Operation, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op := m.find(id); op != nil {
		return op.Operation, true
	}
	return Operation{}, false
}

// List returns all operations, newest first.
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

// Cancel cancels an operation. Its changes are kept. It reports whether the operation exists; a
// finished operation is left unchanged.
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

// Wait returns an operation when it has finished, or its current state when ctx ends.
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

// Changed returns a channel that is closed at the next change of an operation. Call it before List.
func (m *Manager) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Close cancels all operations and waits for them to end. It may be called again.
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

// forget removes operations that finished long ago, and the oldest ones if there are too many.
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

// notify wakes the callers that wait for a change.
func (m *Manager) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// update changes the state of an operation and notifies.
func (m *Manager) update(op *operation, change func(*Operation)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&op.Operation)
	m.notify()
}
