package testenv

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/asynq-go/asynq"
)

// Log is a slog.Handler that keeps the lines at level info and above.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (b *Log) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// WithAttrs returns b: it ignores the attributes.
func (b *Log) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup returns b: it ignores the name.
func (b *Log) WithGroup(string) slog.Handler { return b }

// Handle implements slog.Handler.
func (b *Log) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("05.000 ") + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

// Count returns the number of lines that contain all the words.
func (b *Log) Count(words ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, line := range b.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// String returns all lines.
func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// DiscardLogger returns a Logger that writes nothing.
func DiscardLogger() asynq.Logger {
	return asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
}
