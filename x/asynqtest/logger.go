package asynqtest

import (
	"fmt"
	"testing"
)

// testLogger writes the server's log to the log of the test, until the test ends.
type testLogger struct {
	t    testing.TB
	over <-chan struct{}
}

func (l *testLogger) log(level string, args ...any) {
	select {
	case <-l.over:
	default:
		l.t.Logf("asynq: %s: %s", level, fmt.Sprint(args...))
	}
}

func (l *testLogger) Debug(args ...any) { l.log("debug", args...) }
func (l *testLogger) Info(args ...any)  { l.log("info", args...) }
func (l *testLogger) Warn(args ...any)  { l.log("warning", args...) }
func (l *testLogger) Error(args ...any) { l.log("error", args...) }
func (l *testLogger) Fatal(args ...any) { l.log("fatal", args...) }
