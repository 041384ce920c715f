package worker

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestSafeCall(t *testing.T) {
	isolate := func(f func()) error { return <-Isolate(f) }
	for name, call := range map[string]func(func()) error{"SafeCall": SafeCall, "Isolate": isolate} {
		if err := call(func() {}); err != nil {
			t.Errorf("%s without a panic: %v", name, err)
		}
		t.Run(name, func(t *testing.T) { testPanics(t, call, name == "Isolate") })
	}
}

func testPanics(t *testing.T, call func(func()) error, isolated bool) {
	for _, c := range []struct {
		name string
		f    func()
		text string
		wrap error
	}{
		{"text", func() { panic("text") }, "panic: text", nil},
		{"an error", func() { panic(io.EOF) }, "panic: EOF", io.EOF},
		{"nil", func() { panic(nil) }, "panic called with nil argument", nil}, //nolint:govet // What users may do.
		{"Goexit", runtime.Goexit, "panic: runtime.Goexit was called", nil},
		{"an index", func() { _ = make([]int, len(os.Args))[len(os.Args)] }, "index out of range", nil},
	} {
		if c.name == "Goexit" && !isolated {
			continue
		}
		err := call(c.f)
		var panicked *PanicError
		if !errors.As(err, &panicked) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %q, want %q in it", c.name, err, c.text)
		}
		if c.wrap != nil && !errors.Is(err, c.wrap) {
			t.Errorf("%s: does not wrap %v", c.name, c.wrap)
		}
		if !strings.Contains(string(panicked.Stack), "safecall_test.go") && c.name != "Goexit" {
			t.Errorf("%s: the stack does not show the place:\n%s", c.name, panicked.Stack)
		}
	}
}
