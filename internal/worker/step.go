package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// The errors of steps. Package step exports them.
var (
	ErrStepUsed      = errors.New("step: the name is used twice in one attempt")
	ErrStepKind      = errors.New("step: the name belongs to a step of another kind")
	ErrStepRecord    = errors.New("step: malformed record")
	ErrTooManySteps  = errors.New("step: the task has too many steps")
	ErrStepTooLarge  = errors.New("step: the value is too large")
	ErrSignalTimeout = errors.New("step: no signal in time")
)

const (
	// awaitDelay is the delay of the settlement of a task that waits for a signal. It is that until
	// the next attempt if the call after the settlement is lost, see rdb.Extra.
	awaitDelay = 5 * time.Second
	// stepBudget limits how long a step is recorded again after errors that pass. Without its
	// record, a step runs again.
	stepBudget = 10 * time.Second
	// The pause before a step is recorded again, and its maximum; it doubles with each retry.
	minStepPause = 50 * time.Millisecond
	maxStepPause = 500 * time.Millisecond
)

// Steps are the steps of a task, as one attempt knows and makes them.
type Steps struct {
	attempt *Attempt

	mu        sync.Mutex          // guards the rest; held while the steps are read
	state     *rdb.StepState      // nil: not read
	readAt    time.Time           // when Redis returned state.Now
	used      map[string]struct{} // names in this attempt
	count     int                 // steps that are recorded or may be
	bytes     int                 // of their values
	suspended *Suspension         // the attempt must end with it
}

// Suspension is the error of an attempt that ends because its task sleeps.
type Suspension struct {
	text  string
	retry RetryError
}

// Error says which step sleeps, and until when.
func (s *Suspension) Error() string { return s.text }

// Unwrap returns the request for the next attempt.
func (s *Suspension) Unwrap() error { return &s.retry }

// Steps returns the steps of the task. It returns ErrLeaseExpired if the attempt is over or its
// lease is known to be lost. InPool must be true.
func (a *Attempt) Steps() (*Steps, error) {
	if err := a.holds(); err != nil {
		return nil, err
	}
	s := a.steps.Load()
	if s == nil {
		a.steps.CompareAndSwap(nil, &Steps{attempt: a, used: make(map[string]struct{})})
		s = a.steps.Load()
	}
	return s, nil
}

// holds returns ErrLeaseExpired if the attempt may not write.
func (a *Attempt) holds() error {
	if a.lost.Load() || a.status.Load() != running {
		return ErrLeaseExpired
	}
	return nil
}

// Begin begins a step that runs a function. It returns the recorded value, or false if the function
// must run. Then Record or Release must follow.
func (s *Steps) Begin(ctx context.Context, name string) (value []byte, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.begin(ctx, name)
	if err != nil {
		return nil, false, err
	}
	switch step.Kind {
	case wire.StepRun:
		return step.Value, true, nil
	case "":
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("%w: %s", ErrStepKind, step.Kind)
	}
}

// begin takes a name for this attempt, and returns the record of the step; without a record it is
// zero. The caller holds the lock.
func (s *Steps) begin(ctx context.Context, name string) (wire.Step, error) {
	if s.suspended != nil {
		return wire.Step{}, s.suspended
	}
	if _, ok := s.used[name]; ok {
		return wire.Step{}, ErrStepUsed
	}
	if err := s.read(ctx); err != nil {
		return wire.Step{}, err
	}
	record, err := s.load(ctx, s.state.Steps, name, wire.FieldStep)
	if err != nil {
		return wire.Step{}, err
	}
	step, ok := wire.DecodeStep(record)
	switch {
	case record != "" && !ok:
		return wire.Step{}, fmt.Errorf("%w: %.100q", ErrStepRecord, record)
	case record == "" && s.count >= wire.MaxSteps:
		return wire.Step{}, ErrTooManySteps
	case record == "":
		s.count++
	}
	s.used[name] = struct{}{}
	return step, nil
}

// Release ends a step whose function has failed. Its name may be used again.
func (s *Steps) Release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.used, name)
	s.count--
}

// read reads the steps of the task, once. The caller holds the lock.
func (s *Steps) read(ctx context.Context) error {
	if s.state != nil {
		return nil
	}
	a := s.attempt
	state, err := a.fetcher.cfg.Broker.ReadSteps(ctx, a.Queue, a.Message.ID, a.Token)
	if err != nil {
		return s.failed(err)
	}
	s.state, s.readAt, s.count = state, time.Now(), len(state.Steps)
	for _, record := range state.Steps {
		s.bytes += len(record)
	}
	for field, size := range state.Unread {
		if strings.HasPrefix(field, wire.FieldStep) {
			s.count, s.bytes = s.count+1, s.bytes+int(size)
		}
	}
	return nil
}

// load returns what the task has under a name, "" if nothing. The caller holds the lock.
func (s *Steps) load(ctx context.Context, known map[string]string, name, prefix string) (string, error) {
	if _, ok := s.state.Unread[prefix+name]; !ok {
		return known[name], nil
	}
	a := s.attempt
	value, err := a.fetcher.cfg.Broker.ReadStep(ctx, a.Queue, a.Message.ID, prefix+name)
	if err != nil {
		return "", s.failed(err)
	}
	delete(s.state.Unread, prefix+name)
	known[name] = value
	return value, nil
}

// Record records the value of a step. The handler's context may have ended.
func (s *Steps) Record(ctx context.Context, name string, value []byte) error {
	if len(value) > wire.MaxStepValue {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrStepTooLarge, len(value), wire.MaxStepValue)
	}
	s.mu.Lock()
	full := s.bytes+len(value) > wire.MaxStepValues
	if !full {
		s.bytes += len(value)
	}
	s.mu.Unlock()
	if full {
		return fmt.Errorf("%w: the steps of the task exceed %d bytes", ErrStepTooLarge, wire.MaxStepValues)
	}
	return s.write(context.WithoutCancel(ctx), &rdb.StepWrite{Name: name, Kind: wire.StepRun, Value: value})
}

// write records a step. It repeats the call after errors that pass, as during a failover.
func (s *Steps) write(ctx context.Context, w *rdb.StepWrite) error {
	a := s.attempt
	w.Queue, w.ID, w.Token = a.Queue, a.Message.ID, a.Token
	began := time.Now()
	for pause := minStepPause; ; pause = min(2*pause, maxStepPause) {
		if err := a.holds(); err != nil {
			return err
		}
		err := a.fetcher.cfg.Broker.WriteStep(ctx, w)
		if err == nil || !script.Transient(err) || errors.Is(err, script.ErrTaskGone) || errors.Is(err, script.ErrTokenLost) ||
			time.Since(began) > stepBudget || ctx.Err() != nil {
			return s.failed(err)
		}
		time.Sleep(pause)
	}
}

// failed translates an error of the broker. If the lease is lost, it ends the attempt.
func (s *Steps) failed(err error) error {
	if errors.Is(err, script.ErrTaskGone) || errors.Is(err, script.ErrTokenLost) {
		s.attempt.fetcher.loseLease(s.attempt)
		return ErrLeaseExpired
	}
	return err
}

// Sleep returns nil if the task has slept for d since the first call. Otherwise it returns a
// Suspension, with which the attempt must end.
func (s *Steps) Sleep(ctx context.Context, name string, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.begin(ctx, name)
	if err != nil {
		return err
	}
	if step.Kind == "" {
		if step, _, err = s.start(ctx, &rdb.StepWrite{Name: name, Kind: wire.StepSleep, For: d}); err != nil {
			return err
		}
	}
	if step.Kind != wire.StepSleep {
		return fmt.Errorf("%w: %s", ErrStepKind, step.Kind)
	}
	return s.suspend(step, fmt.Sprintf("step %q sleeps", name))
}

// WaitSignal returns the value of a signal if it has come, and ErrSignalTimeout if it has not come
// within the timeout, from the first call. Otherwise it returns a Suspension, with which the
// attempt must end.
func (s *Steps) WaitSignal(ctx context.Context, name string, timeout time.Duration) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, err := s.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	if step.Kind == "" || step.Kind == wire.StepWait {
		value, err := s.load(ctx, s.state.Signals, name, wire.FieldSignal)
		if value != "" || err != nil {
			return []byte(value), err
		}
		var signal []byte
		step, signal, err = s.start(ctx, &rdb.StepWrite{Name: name, Kind: wire.StepWait, For: timeout})
		if signal != nil || err != nil {
			return signal, err
		}
	}
	switch step.Kind {
	case wire.StepTimeout:
		return nil, ErrSignalTimeout
	case wire.StepWait:
		return nil, s.suspend(step, fmt.Sprintf("step %q waits for its signal", name))
	default:
		return nil, fmt.Errorf("%w: %s", ErrStepKind, step.Kind)
	}
}

// start records that the task sleeps or waits, and returns the record. The caller holds the lock.
func (s *Steps) start(ctx context.Context, w *rdb.StepWrite) (step wire.Step, signal []byte, err error) {
	if err := s.write(ctx, w); err != nil {
		delete(s.used, w.Name)
		s.count--
		return wire.Step{}, nil, err
	}
	s.state.Now, s.readAt = w.Now, time.Now()
	if w.Signal != nil {
		return wire.Step{}, w.Signal, nil
	}
	step, ok := wire.DecodeStep(w.Record)
	if !ok {
		return wire.Step{}, nil, fmt.Errorf("%w: %.100q", ErrStepRecord, w.Record)
	}
	return step, nil, nil
}

// suspend returns nil if the end of a sleep has come. The caller holds the lock.
func (s *Steps) suspend(step wire.Step, what string) error {
	now := time.UnixMilli(s.state.Now).Add(time.Since(s.readAt)) // by the clock of Redis, or a moment before
	until := time.UnixMilli(step.Until)
	rest := until.Sub(now)
	if rest <= 0 && step.Kind == wire.StepSleep {
		return nil
	}
	rest = max(rest, time.Millisecond) // the next attempt records the timeout
	s.suspended = &Suspension{
		text:  fmt.Sprintf("asynq: %s, at most until %s", what, until.UTC().Format(time.RFC3339)),
		retry: RetryError{After: rest, Snooze: true, Await: step.Kind == wire.StepWait, until: time.Now().Add(rest)},
	}
	if step.Kind == wire.StepSleep {
		s.suspended.text = fmt.Sprintf("asynq: %s until %s", what, until.UTC().Format(time.RFC3339))
	}
	return s.suspended
}
