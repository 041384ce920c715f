package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// MaxEvents is the number of events that the audit page shows at most.
	MaxEvents = 1000
	// maxTail bounds the end of the audit file that is read at the start, in bytes.
	maxTail = 4 << 20
)

// trail keeps the last events of the audit log, and appends them to a file.
type trail struct {
	path string // empty: no file
	log  *slog.Logger

	mu     sync.Mutex
	events []Event // a ring, once it has MaxEvents
	next   int     // index of the oldest event in a full ring
	failed bool    // the last event could not be written
}

// newTrail returns a trail with the last events of the file.
func newTrail(path string, log *slog.Logger) (*trail, error) {
	t := &trail{path: path, log: log}
	if path == "" {
		return t, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("AuditFile: %w", err)
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("AuditFile: %w", err)
	}
	tail := make([]byte, min(end, maxTail))
	if _, err := f.ReadAt(tail, end-int64(len(tail))); err != nil {
		return nil, fmt.Errorf("AuditFile: %w", err)
	}
	for line := range bytes.Lines(tail) {
		var e Event
		if json.Unmarshal(line, &e) == nil && !e.At.IsZero() { // the first line may be cut off
			t.keep(e)
		}
	}
	return t, nil
}

func (t *trail) keep(e Event) {
	if len(t.events) < MaxEvents {
		t.events = append(t.events, e)
		return
	}
	t.events[t.next] = e
	t.next = (t.next + 1) % MaxEvents
}

// add adds an event. It opens the file for each event, so that the file can be rotated.
func (t *trail) add(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(e)
	if t.path == "" {
		return
	}
	err := t.write(e)
	if err != nil && !t.failed {
		t.log.Error("web: the audit file cannot be written; events are only in the log", "error", err)
	}
	t.failed = err != nil
}

func (t *trail) write(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// EventFilter selects events. Zero fields select all.
type EventFilter struct {
	User, Queue  string // exact
	Action       string // exact, or the part before the dot, such as "task"
	Outcome      string
	Since, Until time.Time // including Since, excluding Until
}

func (f EventFilter) selects(e *Event) bool {
	return (f.User == "" || e.User == f.User) && (f.Queue == "" || e.Queue == f.Queue) && (f.Outcome == "" || e.Outcome == f.Outcome) &&
		(f.Action == "" || e.Action == f.Action || strings.HasPrefix(e.Action, f.Action+".")) &&
		(f.Since.IsZero() || !e.At.Before(f.Since)) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// Events returns the last events that the filter selects, newest first. The caller checks the
// permission AuditView.
func (g *Guard) Events(f EventFilter) []Event {
	t := g.trail
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Event
	for i := range t.events {
		e := &t.events[(t.next+len(t.events)-1-i)%len(t.events)]
		if f.selects(e) {
			out = append(out, *e)
		}
	}
	return out
}
