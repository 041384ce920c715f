package asynq

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Logger receives the log of the library, one call per line, with the line as the only argument.
// NewSlogLogger adapts a *slog.Logger and preserves attributes. A Logger must be safe for
// concurrent use.
type Logger interface {
	Debug(args ...interface{}) // logs details that help in development
	Info(args ...interface{})  // logs normal events
	Warn(args ...interface{})  // logs events that may indicate a problem
	Error(args ...interface{}) // logs failures that the program survives

	// Fatal logs a failure and exits the process with status 1. The library does not call it.
	Fatal(args ...interface{})
}

// LogLevel is the minimum level that is logged. The zero value means InfoLevel. *LogLevel
// implements flag.Value.
type LogLevel int32

// The log levels, in ascending order.
const (
	DebugLevel LogLevel = iota + 1 // everything
	InfoLevel                      // normal events and above; the default
	WarnLevel                      // possible problems and above
	ErrorLevel                     // failures only
	FatalLevel                     // only failures that end the program
)

var logLevelNames = [...]string{
	DebugLevel: "debug", InfoLevel: "info", WarnLevel: "warn", ErrorLevel: "error", FatalLevel: "fatal",
}

// String returns the name of the level as accepted by Set. It is empty for the zero value.
func (l *LogLevel) String() string {
	if *l < 0 || *l > FatalLevel {
		return fmt.Sprintf("LogLevel(%d)", int32(*l))
	}
	return logLevelNames[*l]
}

// Set sets the level to "debug", "info", "warn" or "warning", "error" or "fatal", ignoring case. It
// returns an error for other values.
func (l *LogLevel) Set(val string) error {
	name := strings.ToLower(val)
	if name == "warning" {
		name = logLevelNames[WarnLevel]
	}
	level := slices.Index(logLevelNames[:], name)
	if level < int(DebugLevel) {
		return fmt.Errorf("asynq: unsupported log level %q: use debug, info, warn, error or fatal", val)
	}
	*l = LogLevel(level)
	return nil
}

// slogLevelFatal is the slog level of FatalLevel.
const slogLevelFatal = slog.LevelError + 4

// slogLevel returns the slog level of l.
func (l LogLevel) slogLevel() slog.Level {
	switch {
	case l == 0:
		return slog.LevelInfo
	case l <= DebugLevel:
		return slog.LevelDebug
	case l >= FatalLevel:
		return slogLevelFatal
	}
	return slog.LevelDebug + 4*slog.Level(l-DebugLevel)
}

// NewSlogLogger returns a Logger that writes to l, or to slog.Default() if l is nil. Fatal logs at
// level 12, which slog prints as ERROR+4, and exits the process with status 1.
func NewSlogLogger(l *slog.Logger) Logger {
	if l == nil {
		l = slog.Default()
	}
	return &slogLogger{logger: l, exit: os.Exit}
}

type slogLogger struct {
	logger *slog.Logger
	exit   func(code int)
}

func (s *slogLogger) Debug(args ...interface{}) { s.log(slog.LevelDebug, args) }
func (s *slogLogger) Info(args ...interface{})  { s.log(slog.LevelInfo, args) }
func (s *slogLogger) Warn(args ...interface{})  { s.log(slog.LevelWarn, args) }
func (s *slogLogger) Error(args ...interface{}) { s.log(slog.LevelError, args) }

func (s *slogLogger) Fatal(args ...interface{}) {
	s.log(slogLevelFatal, args)
	s.exit(1)
}

// log must be called directly by the methods above, because it skips a fixed number of stack
// frames.
func (s *slogLogger) log(level slog.Level, args []interface{}) {
	ctx := context.Background()
	if !s.logger.Enabled(ctx, level) {
		return
	}
	var pc [1]uintptr
	runtime.Callers(3, pc[:]) // skips Callers, log and the method
	record := slog.NewRecord(time.Now(), level, fmt.Sprint(args...), pc[0])
	// slog.Logger ignores this error, too.
	_ = s.logger.Handler().Handle(ctx, record)
}

// newSlog returns the internal logger, which writes records from level on to l:
//
//   - nil: as lines to standard error.
//   - returned by NewSlogLogger: to its *slog.Logger, with attributes.
//   - others: as lines "message key=value …", with values as printed by slog.TextHandler.
//
// If l panics, only the line is lost.
func newSlog(l Logger, level LogLevel) *slog.Logger {
	var handler slog.Handler
	switch l := l.(type) {
	case nil:
		handler = newLineHandler(stderrLines(os.Stderr))
	case *slogLogger:
		handler = l.logger.Handler()
	default:
		handler = newLineHandler(loggerLines(l))
	}
	return slog.New(&guardHandler{min: level.slogLevel(), next: handler})
}

// guardHandler drops records below min, and protects the caller from a handler that panics.
type guardHandler struct {
	min  slog.Level
	next slog.Handler
}

func (h *guardHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	if level < h.min {
		return false
	}
	defer func() { _ = recover() }()
	return h.next.Enabled(ctx, level)
}

// Handle calls the next handler. A panic loses the record.
func (h *guardHandler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.next.Handle(ctx, r)
}

func (h *guardHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.next.WithAttrs(attrs) })
}

func (h *guardHandler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.next.WithGroup(name) })
}

// with returns a guard of the derived handler, or h itself if derive panics, which loses only the
// attributes.
func (h *guardHandler) with(derive func() slog.Handler) (guarded slog.Handler) {
	guarded = h
	defer func() { _ = recover() }()
	return &guardHandler{min: h.min, next: derive()}
}

// emitLine writes one line, which has no line break at its end.
type emitLine func(t time.Time, level slog.Level, line string)

// loggerLines calls the method of l that matches the level.
func loggerLines(l Logger) emitLine {
	return func(_ time.Time, level slog.Level, line string) {
		switch {
		case level < slog.LevelInfo:
			l.Debug(line)
		case level < slog.LevelWarn:
			l.Info(line)
		case level < slog.LevelError:
			l.Warn(line)
		case level < slogLevelFatal:
			l.Error(line)
		default:
			l.Fatal(line)
		}
	}
}

// stderrLines writes lines as "asynq: pid=123 2026/01/02 15:04:05.000000 INFO: message key=value",
// in UTC, to w.
func stderrLines(w io.Writer) emitLine {
	var mu sync.Mutex
	pid := os.Getpid()
	return func(t time.Time, level slog.Level, line string) {
		name := level.String()
		if level >= slogLevelFatal {
			name = "FATAL"
		}
		mu.Lock()
		defer mu.Unlock()
		// There is no place to report an error of standard error.
		_, _ = fmt.Fprintf(w, "asynq: pid=%d %s %s: %s\n", pid, t.UTC().Format("2006/01/02 15:04:05.000000"), name, line)
	}
}

// lineHandler formats each record as a line.
type lineHandler struct {
	emit emitLine
	// text returns a text handler with the attributes and groups of this handler. A new one per
	// record avoids a lock around formatting, during which a value may log itself.
	text func(w io.Writer) slog.Handler
}

func newLineHandler(emit emitLine) *lineHandler {
	return &lineHandler{emit, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }}
}

func (h *lineHandler) Enabled(context.Context, slog.Level) bool { return true }

// textHead is how slog.TextHandler begins a record without a time and message, at level INFO.
const textHead = `level=INFO msg=""`

// Handle emits the message, and the attributes of h and r, each as " key=value".
func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	bare := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	r.Attrs(func(a slog.Attr) bool {
		bare.AddAttrs(a)
		return true
	})
	var attrs strings.Builder
	if err := h.text(&attrs).Handle(ctx, bare); err != nil {
		return err
	}
	h.emit(r.Time, r.Level, r.Message+strings.TrimSuffix(strings.TrimPrefix(attrs.String(), textHead), "\n"))
	return nil
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{h.emit, func(w io.Writer) slog.Handler { return h.text(w).WithAttrs(attrs) }}
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	return &lineHandler{h.emit, func(w io.Writer) slog.Handler { return h.text(w).WithGroup(name) }}
}
