package worker

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestContain(t *testing.T) {
	if err := Contain(func() {}); err != nil {
		t.Errorf("nothing happened: %v", err)
	}
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
		err := Contain(c.f)
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
		if !strings.Contains(string(panicked.Stack), "contain_test.go") && c.name != "Goexit" {
			t.Errorf("%s: the stack does not show where:\n%s", c.name, panicked.Stack)
		}
	}
}
