package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// extension is the extension of history files.
const extension = ".jsonl"

// Writer appends events to the file of one process. It is safe for concurrent use.
type Writer struct {
	process string
	skew    time.Duration

	mu   sync.Mutex
	file *os.File
	err  error // the first one
}

// Create opens the file of a process in a directory. skew is how far the clock of the process is
// ahead.
func Create(dir, process string, skew time.Duration) (*Writer, error) {
	file, err := os.OpenFile(filepath.Join(dir, process+extension), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Writer{process: process, skew: skew, file: file}, nil
}

// Write appends an event with one write(2), which survives a kill. A zero time means now, and an
// empty process the process of the writer. Close returns the first error, because callers of Write
// cannot handle it.
func (w *Writer) Write(e Event) {
	if e.At == 0 {
		e.At = w.Now()
	}
	if e.Process == "" {
		e.Process = w.process
	}
	line, err := json.Marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if w.err == nil {
		w.err = err
	}
}

// Now returns the time of an event that is written now.
func (w *Writer) Now() int64 { return time.Now().Add(-w.skew).UnixNano() }

// Close closes the file and returns the first error.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.file.Close(); w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return fmt.Errorf("history of %s: %w", w.process, w.err)
	}
	return nil
}
