package rdb

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Mode is what a call does depending on earlier calls. It has either an idempotency key, or a
// policy with any of the other settings.
type Mode struct {
	// Key is an idempotency key: the call creates a task only if no other was created with the key
	// in the queue before. TTL is that of the key in seconds. It expires, at the earliest, when no
	// call is repeated any more.
	Key string
	TTL int64

	Policy   DuplicatePolicy // if another task holds the lock
	Quiet    int64           // seconds without another call before the task is due; 0: no debounce
	MaxWait  int64           // seconds from the first call to when it is due; 0: unlimited
	Throttle string          // key of a throttle; empty: none
	Window   int64           // of the throttle, seconds

	// FirstID is the ID of the task that the call created, replaced or found. It is set if Err is
	// nil.
	FirstID string

	// Repeated reports that an earlier call has created that task.
	Repeated bool

	// State, DueAt and Kept describe a task that this call created or replaced: its state, when it
	// is due in Unix seconds, rounded up (0: at once), and fields of its message that replace those
	// of NewTask.Message if they are appended. State is 0 if the caller must read the task.
	State wire.State
	DueAt int64
	Kept  []byte

	// Superseded is the ID of an active task that the caller must cancel; empty: none.
	Superseded string
}

// DuplicatePolicy is what a call does if another task holds the lock of its task.
type DuplicatePolicy int

// The policies.
const (
	Reject    DuplicatePolicy = iota
	Keep                      // and return the ID of the holder
	Replace                   // a waiting holder, or follow an active one
	Supersede                 // as Replace, and cancel an active one
)

// word returns the policy as enqueue_mode.lua takes it.
func (p DuplicatePolicy) word() string { return [...]string{"", "keep", "replace", "supersede"}[p] }

// maxModes limits the tasks of a call of enqueue_mode.lua, which reads the messages that it
// replaces.
const maxModes = 100

// script returns the script that creates tasks with the mode.
func (m *Mode) script() *script.Script {
	if m.Key != "" {
		return createOnceScript
	}
	return enqueueModeScript
}

// isFullOfModes is isFull for enqueue_mode.lua, which reads all locks before it writes.
func (c *creation) isFullOfModes(t *NewTask) bool {
	return len(c.tasks) == maxModes || slices.ContainsFunc(c.tasks, func(o *NewTask) bool { return o.Lock == t.Lock })
}

// addModes adds tasks with modes to a call.
func (c *creation) addModes(b *Broker, call *script.Call) *script.Call {
	q := c.queue
	call.Key(q.Pending, q.Marker, q.Scheduled, q.Retry, q.Groups, q.GroupsDue, c.from.Record, q.Keys.HeldTasks())
	for _, t := range c.tasks {
		call.Key(q.Keys.Task(t.ID), t.Lock)
	}
	call.Arg(c.from.Number, q.TaskPrefix, q.GroupPrefix)
	for _, t := range c.tasks {
		m := t.Mode
		call.Arg(t.ID, t.Message, b.Due(t.ProcessAt, t.Early), t.Group, max(t.LockTTL, 1),
			m.Policy.word(), m.Quiet, m.MaxWait, m.Throttle, m.Window)
	}
	return call
}

// setModeResults is setErrors for tasks with modes.
func (c *creation) setModeResults() (first bool) {
	r := c.call.Read()
	for _, t := range c.tasks {
		code, id, state, at, superseded, kept := r.Code(), r.Text(), r.Text(), r.Text(), r.Text(), r.Bytes()
		if t.Err = r.Err(); t.Err != nil {
			continue
		}
		if code == script.CodeLater {
			t.Err = errLater
			continue
		}
		due, err := strconv.ParseFloat(at, 64) // miniredis formats scores as 1.7e+09
		if state != "" && err != nil {
			r.Fail()
			t.Err = r.Err()
			continue
		}
		m := t.Mode
		t.Err, m.FirstID, m.DueAt, m.Superseded, m.Kept = code.Err(), id, int64(math.Ceil(due)), superseded, kept
		m.State, _ = wire.ParseState(state) // 0 for none
		if m.Repeated = code == script.CodeAlready; id == "" {
			m.FirstID = t.ID
		}
		first = first || code == script.CodeFirst
	}
	return first
}

// errLater marks a task that the script has deferred, because the search budget of the call was
// used up.
var errLater = errors.New("deferred")

// deferred returns the tasks that another call must create.
func (c *creation) deferred() (later []*NewTask) {
	if c.script != enqueueModeScript {
		return nil
	}
	for _, t := range c.tasks {
		if errors.Is(t.Err, errLater) {
			later = append(later, t)
		}
	}
	if len(later) < len(c.tasks) {
		return later
	}
	for _, t := range later { // a bug; avoid an endless loop
		t.Err = errors.New("rdb: enqueue_mode: the script defers all tasks")
	}
	return nil
}
