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

// Logger receives what the library has to say, one call a line, with the line as its only argument. NewSlogLogger
// makes one of a *slog.Logger, which also keeps the keys and values apart. A Logger may be called from several
// goroutines at once.
type Logger interface {
	// Debug logs what helps in development.
	Debug(args ...interface{})

	// Info logs what is good to know.
	Info(args ...interface{})

	// Warn logs what is undesired and perhaps a problem.
	Warn(args ...interface{})

	// Error logs what has failed, where the program can go on.
	Error(args ...interface{})

	// Fatal logs what the program cannot go on after, and exits the process with status 1.
	Fatal(args ...interface{})
}

// LogLevel is the least level that is logged. The zero value means InfoLevel. *LogLevel is a flag.Value.
type LogLevel int32

// The levels, from the lowest to the highest.
const (
	// DebugLevel logs everything.
	DebugLevel LogLevel = iota + 1

	// InfoLevel logs the ordinary course of events, too. It is the default.
	InfoLevel

	// WarnLevel logs what is undesired and perhaps a problem, and above.
	WarnLevel

	// ErrorLevel logs only what has failed.
	ErrorLevel

	// FatalLevel logs only what the program cannot go on after.
	FatalLevel
)

// String returns the name of the level as Set takes it, "" for the zero value.
func (l *LogLevel) String() string {
	switch *l {
	case 0:
		return ""
	case DebugLevel:
		return "debug"
	case InfoLevel:
		return "info"
	case WarnLevel:
		return "warn"
	case ErrorLevel:
		return "error"
	case FatalLevel:
		return "fatal"
	}
	return fmt.Sprintf("LogLevel(%d)", int32(*l))
}

// Set takes "debug", "info", "warn" or "warning", "error" or "fatal", in lower or upper case.
func (l *LogLevel) Set(val string) error {
	switch strings.ToLower(val) {
	case "debug":
		*l = DebugLevel
	case "info":
		*l = InfoLevel
	case "warn", "warning":
		*l = WarnLevel
	case "error":
		*l = ErrorLevel
	case "fatal":
		*l = FatalLevel
	default:
		return fmt.Errorf("asynq: unsupported log level %q: use debug, info, warn, error or fatal", val)
	}
	return nil
}

// slogLevelFatal is FatalLevel among the levels of slog, as far above Error as Error is above Warn.
const slogLevelFatal = slog.LevelError + 4

// slogLevel returns the level of slog that l stands for.
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

// NewSlogLogger returns a Logger that writes to l, or to slog.Default() if l is nil. Fatal logs at a level of 12, which
// slog prints as ERROR+4, and exits the process with status 1.
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

// log must be called by the methods above directly: it counts the frames to the line that logs.
func (s *slogLogger) log(level slog.Level, args []interface{}) {
	ctx := context.Background()
	if !s.logger.Enabled(ctx, level) {
		return
	}
	var pc [1]uintptr
	runtime.Callers(3, pc[:]) // Callers, log, and the method
	record := slog.NewRecord(time.Now(), level, fmt.Sprint(args...), pc[0])
	// slog.Logger drops this error too: there is nowhere to log it.
	_ = s.logger.Handler().Handle(ctx, record)
}

// newSlog returns the logger the library itself writes to: what the user gave, from level on.
//
//   - nil: lines on standard error.
//   - made by NewSlogLogger: its *slog.Logger, with attributes as they are.
//   - anything else: each record as one line "message key=value …", the values as slog's text handler prints them.
//
// A logger that panics loses the line, and nothing more. A record of a level of FatalLevel or above goes to Fatal, which
// ends the process; the library logs none.
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

// guardHandler drops what is below min, and survives a handler that panics or calls runtime.Goexit: a worker must not die of its log.
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

// Handle hands the record on in a goroutine of its own, and waits: nothing else contains a runtime.Goexit, which would leave behind
// the locks of whoever logs. Lines are few.
func (h *guardHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		err = h.next.Handle(ctx, r)
	}()
	<-done
	return err
}

func (h *guardHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.next.WithAttrs(attrs) })
}

func (h *guardHandler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.next.WithGroup(name) })
}

// with returns a guard of what derive makes, or h itself if derive panics: then the attributes are lost, not the line.
func (h *guardHandler) with(derive func() slog.Handler) (guarded slog.Handler) {
	guarded = h
	defer func() { _ = recover() }()
	return &guardHandler{min: h.min, next: derive()}
}

// emitLine writes one line without its end.
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

// stderrLines writes lines as "asynq: pid=123 2026/01/02 15:04:05.000000 INFO: message key=value", in UTC, to w.
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
		// A standard error that cannot be written to leaves nowhere to say so.
		_, _ = fmt.Fprintf(w, "asynq: pid=%d %s %s: %s\n", pid, t.UTC().Format("2006/01/02 15:04:05.000000"), name, line)
	}
}

// lineHandler makes a line of each record.
type lineHandler struct {
	emit emitLine
	// derive makes of a fresh text handler the one with the attributes and groups of this handler. A text handler for
	// each record needs no lock around the printing, in which a value may log in its turn.
	derive []func(slog.Handler) slog.Handler
}

func newLineHandler(emit emitLine) *lineHandler {
	return &lineHandler{emit: emit}
}

func (h *lineHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	attrs, err := h.printAttrs(ctx, r)
	if err != nil {
		return err
	}
	h.emit(r.Time, r.Level, r.Message+attrs)
	return nil
}

// textHead is how a text handler begins the line of a record with no time, level 0 and no message.
const textHead = `level=INFO msg=""`

// printAttrs returns the attributes of h and r, each as " key=value".
func (h *lineHandler) printAttrs(ctx context.Context, r slog.Record) (string, error) {
	bare := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	r.Attrs(func(a slog.Attr) bool {
		bare.AddAttrs(a)
		return true
	})
	var buf strings.Builder
	var text slog.Handler = slog.NewTextHandler(&buf, nil)
	for _, step := range h.derive {
		text = step(text)
	}
	if err := text.Handle(ctx, bare); err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimPrefix(buf.String(), textHead), "\n"), nil
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(text slog.Handler) slog.Handler { return text.WithAttrs(attrs) })
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	return h.with(func(text slog.Handler) slog.Handler { return text.WithGroup(name) })
}

func (h *lineHandler) with(step func(slog.Handler) slog.Handler) *lineHandler {
	// Concat, not append: handlers that derive from the same one must not share the space behind its steps.
	return &lineHandler{emit: h.emit, derive: slices.Concat(h.derive, []func(slog.Handler) slog.Handler{step})}
}
