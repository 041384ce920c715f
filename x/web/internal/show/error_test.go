package show_test

import (
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

func TestParts(t *testing.T) {
	t.Parallel()
	got := show.Parts("mx#.example: ‹path› ‹Not one› ‹")
	want := []show.Part{{Text: "mx"}, {Text: "#", Hole: true}, {Text: ".example: "}, {Text: "path", Hole: true}, {Text: " ‹"}, {Text: "Not one› ‹"}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for n := range got {
		if got[n] != want[n] {
			t.Errorf("part %d is %+v, want %+v", n, got[n], want[n])
		}
	}
}

func TestSplitError(t *testing.T) {
	t.Parallel()
	message, stack := show.SplitError("panic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/a.go:1\n")
	if message != "panic: boom" || stack != "goroutine 1 [running]:\nmain.f()\n\t/a.go:1" {
		t.Errorf("got %q and %q", message, stack)
	}
	if message, stack = show.SplitError(pyText); message != "X" || !strings.HasPrefix(stack, "Traceback") {
		t.Errorf("got %q and %q", message, stack)
	}
	if message, stack = show.SplitError("boom\n#0 /a.php(3): f()\n#1 {main}"); message != "boom" || stack != "#0 /a.php(3): f()\n#1 {main}" {
		t.Errorf("got %q and %q", message, stack)
	}
	if message, stack = show.SplitError("boom\n  at app.Mail.send(Mail.java:3)"); message != "boom" || stack != "  at app.Mail.send(Mail.java:3)" {
		t.Errorf("got %q and %q", message, stack)
	}
	if message, stack = show.SplitError("one\ntwo\n"); message != "one\ntwo" || stack != "" {
		t.Errorf("got %q and %q", message, stack)
	}
}

// FuzzParts checks that the parts of a kind make the kind.
func FuzzParts(f *testing.F) {
	for _, s := range []string{"user 42", `say "hello`, "‹path›", "a\nmain.f()\n\t/x.go:1", pyText, "‹", "2026-01-01T", strings.Repeat("9a", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kind := asynq.ErrorKind(s)
		var joined strings.Builder
		for _, p := range show.Parts(kind) {
			if p.Hole && p.Text != "#" {
				joined.WriteString("‹" + p.Text + "›")
			} else {
				joined.WriteString(p.Text)
			}
		}
		if joined.String() != kind {
			t.Fatalf("the parts of %q are those of %q", kind, joined.String())
		}
		if message, stack := show.SplitError(s); len(message)+len(stack) > len(s)+1 {
			t.Fatalf("the message %q and the stack %q are longer than %q", message, stack, s)
		}
	})
}

const pyText = "Traceback (most recent call last):\n  File \"a\", line 1, in f\nX"
