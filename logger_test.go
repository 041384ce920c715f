package asynq

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lineLogger is a Logger that keeps its lines, each with the name of the method.
type lineLogger struct {
	mu    sync.Mutex
	lines []string
}

func (l *lineLogger) note(method string, args []interface{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(args) != 1 {
		method = fmt.Sprintf("%s with %d arguments", method, len(args))
	}
	l.lines = append(l.lines, method+": "+fmt.Sprint(args...))
}

func (l *lineLogger) Debug(args ...interface{}) { l.note("Debug", args) }
func (l *lineLogger) Info(args ...interface{})  { l.note("Info", args) }
func (l *lineLogger) Warn(args ...interface{})  { l.note("Warn", args) }
func (l *lineLogger) Error(args ...interface{}) { l.note("Error", args) }
func (l *lineLogger) Fatal(args ...interface{}) { l.note("Fatal", args) }

// panicLogger is a Logger and a slog.Handler whose methods all panic.
type panicLogger struct{}

func (panicLogger) Debug(...interface{})                      { panic("debug") }
func (panicLogger) Info(...interface{})                       { panic("info") }
func (panicLogger) Warn(...interface{})                       { panic("warn") }
func (panicLogger) Error(...interface{})                      { panic("error") }
func (panicLogger) Fatal(...interface{})                      { panic("fatal") }
func (panicLogger) Enabled(context.Context, slog.Level) bool  { panic("enabled") }
func (panicLogger) Handle(context.Context, slog.Record) error { panic("handle") }
func (panicLogger) WithAttrs([]slog.Attr) slog.Handler        { panic("attrs") }
func (panicLogger) WithGroup(string) slog.Handler             { panic("group") }

func TestLogLevelNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want LogLevel
		name string
	}{
		{"debug", DebugLevel, "debug"},
		{"info", InfoLevel, "info"},
		{"warn", WarnLevel, "warn"},
		{"warning", WarnLevel, "warn"},
		{"error", ErrorLevel, "error"},
		{"fatal", FatalLevel, "fatal"},
		{"ERROR", ErrorLevel, "error"},
	}
	for _, tc := range tests {
		var level LogLevel
		if err := level.Set(tc.in); err != nil || level != tc.want {
			t.Errorf("Set(%q) sets %d, error %v, want %d", tc.in, level, err, tc.want)
		}
		if got := level.String(); got != tc.name {
			t.Errorf("LogLevel(%d).String() = %q, want %q", level, got, tc.name)
		}
	}
	for _, in := range []string{"", "loud", "info "} {
		level := ErrorLevel
		err := level.Set(in)
		if err == nil || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), "warn") {
			t.Errorf("Set(%q) = %v, want an error that lists the levels", in, err)
		}
		if level != ErrorLevel {
			t.Errorf("Set(%q) changed the level to %d", in, level)
		}
	}
	for level, want := range map[LogLevel]string{0: "", 9: "LogLevel(9)", -1: "LogLevel(-1)"} {
		if got := level.String(); got != want {
			t.Errorf("LogLevel(%d).String() = %q, want %q", level, got, want)
		}
	}
}

func TestLogLevelIsAFlag(t *testing.T) {
	t.Parallel()
	var level LogLevel
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&level, "loglevel", "least level to log")
	flags.PrintDefaults() // calls String on a zero value
	if err := flags.Parse([]string{"-loglevel", "warning"}); err != nil || level != WarnLevel {
		t.Errorf("level %d, error %v, want WarnLevel", level, err)
	}
	if err := flags.Parse([]string{"-loglevel", "no"}); err == nil {
		t.Error("accepted an unknown level")
	}
}

func TestNewSlogFiltersByLevel(t *testing.T) {
	t.Parallel()
	all := []string{"Debug: m", "Info: m", "Warn: m", "Error: m", "Fatal: m"}
	tests := []struct {
		level LogLevel
		want  []string
	}{
		{0, all[1:]}, {DebugLevel, all}, {InfoLevel, all[1:]}, {WarnLevel, all[2:]}, {ErrorLevel, all[3:]},
		{FatalLevel, all[4:]}, {99, all[4:]}, {-99, all},
	}
	for _, tc := range tests {
		var user lineLogger
		log := newSlog(&user, tc.level)
		for _, level := range []slog.Level{-4, 0, 4, 8, 12} {
			log.Log(context.Background(), level, "m")
		}
		if !slices.Equal(user.lines, tc.want) {
			t.Errorf("level %d: lines %q, want %q", tc.level, user.lines, tc.want)
		}

		// The level applies in the same way if the records go to a *slog.Logger.
		var out bytes.Buffer
		log = newSlog(NewSlogLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-99)}))), tc.level)
		for _, level := range []slog.Level{-4, 0, 4, 8, 12} {
			log.Log(context.Background(), level, "m")
		}
		if got := strings.Count(out.String(), "msg=m"); got != len(tc.want) {
			t.Errorf("level %d: %d records reached the slog handler, want %d", tc.level, got, len(tc.want))
		}
	}
}

type textValue struct{}

func (textValue) MarshalText() ([]byte, error) { return []byte("as text"), nil }

type panickingError struct{}

func (panickingError) Error() string { panic("no message") }

func TestNewSlogRendersAttributes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		log  func(log *slog.Logger)
		want string
	}{
		{"none", func(l *slog.Logger) { l.Info("Server is up") }, "Info: Server is up"},
		{"message with quotes", func(l *slog.Logger) { l.Info(`a "b" c=d`) }, `Info: a "b" c=d`},
		{"plain", func(l *slog.Logger) { l.Warn("m", "queue", "low", "n", 3, "ok", true) }, "Warn: m queue=low n=3 ok=true"},
		{"quoted", func(l *slog.Logger) { l.Info("m", "a", "x y", "b", "", "c", `"`, "d", "1\n2", "e", "x=y") },
			`Info: m a="x y" b="" c="\"" d="1\n2" e="x=y"`},
		{"kinds", func(l *slog.Logger) {
			l.Info("m", "d", 1500*time.Millisecond, "t", time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), "err", errors.New("no way"),
				"text", textValue{}, "bytes", []byte("raw"), "nil", nil, "list", []int{1, 2})
		}, `Info: m d=1.5s t=2026-01-02T03:04:05.006Z err="no way" text="as text" bytes="raw" nil=<nil> list="[1 2]"`},
		{"with", func(l *slog.Logger) { l.With("a", 1).With("b", 2).Error("m", "c", 3) }, "Error: m a=1 b=2 c=3"},
		{"group", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).Debug("m", "c", 3) },
			"Debug: m a=1 g.b=2 g.c=3"},
		{"nested groups", func(l *slog.Logger) { l.WithGroup("g").Info("m", slog.Group("h", "x", 1, "y", "2 3")) },
			`Info: m g.h.x=1 g.h.y="2 3"`},
		{"empty group", func(l *slog.Logger) { l.WithGroup("g").Info("m") }, "Info: m"},
		{"keys of slog itself", func(l *slog.Logger) { l.Info("m", "level", "high", "msg", "x", "time", "now") },
			"Info: m level=high msg=x time=now"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var user lineLogger
			tc.log(newSlog(&user, DebugLevel))
			if want := []string{tc.want}; !slices.Equal(user.lines, want) {
				t.Errorf("lines %q, want %q", user.lines, want)
			}
		})
	}
}

func TestNewSlogKeepsLineWithPanickingValue(t *testing.T) {
	t.Parallel()
	var user lineLogger
	newSlog(&user, InfoLevel).Info("m", "err", panickingError{}, "n", 1)
	if len(user.lines) != 1 || !strings.HasPrefix(user.lines[0], "Info: m err=") || !strings.HasSuffix(user.lines[0], " n=1") {
		t.Errorf("lines %q, want one line with the other value", user.lines)
	}
}

func TestNewSlogSiblingsShareNothing(t *testing.T) {
	t.Parallel()
	var user lineLogger
	parent := newSlog(&user, InfoLevel).With("a", 1).With("b", 2).With("c", 3)
	left, right := parent.With("side", "left"), parent.With("side", "right")
	left.Info("m")
	right.Info("m")
	parent.Info("m")
	want := []string{"Info: m a=1 b=2 c=3 side=left", "Info: m a=1 b=2 c=3 side=right", "Info: m a=1 b=2 c=3"}
	if !slices.Equal(user.lines, want) {
		t.Errorf("lines %q, want %q", user.lines, want)
	}
}

// loggingError is an error whose Error method logs.
type loggingError struct{ log *slog.Logger }

func (c loggingError) Error() string {
	c.log.Info("printing")
	return "printed"
}

func TestNewSlogValueMayLog(t *testing.T) {
	t.Parallel()
	var user lineLogger
	log := newSlog(&user, InfoLevel)
	log.Error("m", "err", loggingError{log})
	if want := []string{"Info: printing", "Error: m err=printed"}; !slices.Equal(user.lines, want) {
		t.Errorf("lines %q, want %q", user.lines, want)
	}
}

func TestNewSlogPassesRecordsToSlogLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	user := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: dropSlogTime})).With("app", "shop")
	newSlog(NewSlogLogger(user), WarnLevel).WithGroup("asynq").Warn("Slow", "took", 2)
	want := `{"level":"WARN","msg":"Slow","app":"shop","asynq":{"took":2}}` + "\n"
	if out.String() != want {
		t.Errorf("record %s, want %s", out.String(), want)
	}
}

func TestNewSlogHonorsLevelOfHandler(t *testing.T) {
	t.Parallel()
	handler := slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})
	log := newSlog(NewSlogLogger(slog.New(handler)), DebugLevel)
	if ctx := context.Background(); log.Enabled(ctx, slog.LevelWarn) || !log.Enabled(ctx, slog.LevelError) {
		t.Error("enabled below the level of the handler")
	}
}

func TestNewSlogSurvivesPanics(t *testing.T) {
	t.Parallel()
	handler := panicLogger{}
	tests := map[string]Logger{
		"logger":     panicLogger{},
		"nil logger": (*lineLogger)(nil),
		"handler":    NewSlogLogger(slog.New(handler)),
		"handle":     NewSlogLogger(slog.New(enabledPanic{handler})),
	}
	for name, user := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newSlog(user, DebugLevel).With("a", 1).WithGroup("g")
			for _, level := range []slog.Level{-4, 0, 4, 8, 12} {
				log.Log(context.Background(), level, "m", "b", 2) // must return
			}
			if err := log.Handler().Handle(context.Background(), slog.Record{}); err != nil {
				t.Errorf("Handle returned %v, want nil", err)
			}
		})
	}
}

// enabledPanic is a slog.Handler that panics only in Handle.
type enabledPanic struct{ panicLogger }

func (enabledPanic) Enabled(context.Context, slog.Level) bool { return true }

func TestNewSlogDropsCheaply(t *testing.T) { // not parallel: AllocsPerRun counts all allocations
	log := newSlog(&lineLogger{}, WarnLevel)
	allocs := testing.AllocsPerRun(100, func() { log.Debug("m", "queue", "low", "n", 12345) })
	if allocs != 0 {
		t.Errorf("a dropped line makes %v allocations, want none", allocs)
	}
}

func TestStderrLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(newLineHandler(stderrLines(&out)))
	log.Info("Starting", "queues", "low high")
	log.Log(context.Background(), slog.LevelError+4, "Done")
	stamp := `asynq: pid=` + fmt.Sprint(os.Getpid()) + ` \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} `
	want := regexp.MustCompile(`^` + stamp + `INFO: Starting queues="low high"\n` + stamp + `FATAL: Done\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("output %q does not match %s", out.String(), want)
	}

	out.Reset()
	east := time.FixedZone("east", 9*3600)
	stderrLines(&out)(time.Date(2026, 1, 2, 15, 4, 5, 42000, east), slog.LevelWarn, "m")
	if want := fmt.Sprintf("asynq: pid=%d 2026/01/02 06:04:05.000042 WARN: m\n", os.Getpid()); out.String() != want {
		t.Errorf("line %q, want %q", out.String(), want)
	}
}

func TestStderrLinesAreWhole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(newLineHandler(stderrLines(&out)))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				log.With("a", 1).Info("m", "b", 2)
			}
		})
	}
	wg.Wait()
	if got := strings.Count(out.String(), " INFO: m a=1 b=2\n"); got != 200 {
		t.Errorf("%d whole lines, want 200", got)
	}
}

func TestNewSlogWithoutALogger(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := newSlog(nil, WarnLevel)
	if log.Enabled(ctx, slog.LevelInfo) || !log.Enabled(ctx, slog.LevelWarn) {
		t.Error("the default logger ignores the level")
	}
}

func TestSlogLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: dropSlogTime}
	l := NewSlogLogger(slog.New(slog.NewTextHandler(&out, options)))
	l.Debug("not wanted")
	l.Info("n is ", 3)
	l.Warn("w")
	l.Error(errors.New("e"))
	want := "level=INFO msg=\"n is 3\"\nlevel=WARN msg=w\nlevel=ERROR msg=e\n"
	if out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
}

func TestSlogLoggerFatalExits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	codes := []int{}
	l := &slogLogger{
		logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: dropSlogTime})),
		exit:   func(code int) { codes = append(codes, code) },
	}
	l.Fatal("the ", "end")
	if want := "level=ERROR+4 msg=\"the end\"\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
	l.logger = slog.New(slog.DiscardHandler)
	l.Fatal("unheard")
	if !slices.Equal(codes, []int{1, 1}) {
		t.Errorf("exit codes %v, want 1 each time, even if the line is not logged", codes)
	}
}

func TestSlogLoggerNamesTheCaller(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewSlogLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{AddSource: true})))
	l.Info("m")
	if !strings.Contains(out.String(), "logger_test.go:") {
		t.Errorf("the source is not the calling line: %s", out.String())
	}
}

func TestNewSlogLoggerOfNil(t *testing.T) {
	t.Parallel()
	if got := NewSlogLogger(nil).(*slogLogger).logger; got != slog.Default() {
		t.Errorf("logger %v, want slog.Default", got)
	}
}

func dropSlogTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// FuzzLogLevel parses levels. The valid ones are accepted in upper and lower case.
func FuzzLogLevel(f *testing.F) {
	for _, text := range []string{"debug", "INFO", "warning", "fatal", "", "LogLevel(7)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var level LogLevel
		if err := level.Set(text); err != nil {
			if level != 0 || !strings.Contains(err.Error(), strconv.Quote(text)) {
				t.Errorf("Set(%q) sets %v, error %v", text, level, err)
			}
			return
		}
		if !strings.HasPrefix(strings.ToLower(text), level.String()) {
			t.Errorf("Set(%q) sets %v", text, &level)
		}
	})
}

// FuzzLogLine logs untrusted values, such as task IDs. A record must stay one line.
func FuzzLogLine(f *testing.F) {
	f.Add("id", "a\nERROR: forged", "x")
	f.Add("k=\r", "\u2028\x00", "\xff\"")
	f.Fuzz(func(t *testing.T, key, value, group string) {
		logger := new(lineLogger)
		log := newSlog(logger, DebugLevel)
		log.Info("a message", key, value)
		log.WithGroup(group).With(key, value).Warn("a message", "task", value)
		if len(logger.lines) != 2 {
			t.Fatalf("%d lines", len(logger.lines))
		}
		for _, line := range logger.lines {
			if strings.ContainsAny(line, "\r\n") {
				t.Errorf("%q is more than one line", line)
			}
		}
	})
}
