package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestPatterns(t *testing.T) {
	for _, want := range [][]string{{}, {"a"}, {"email:", "a\"b", "<\x00>", "ünï", strings.Repeat("x", 10_000)}} {
		text, ok := wire.EncodePatterns(want)
		if got, valid := wire.DecodePatterns(string(text)); !ok || !valid || !slices.Equal(got, want) || got == nil {
			t.Errorf("%q became %q", want, got)
		}
	}
	if text, ok := wire.EncodePatterns([]string{"a", "\xff", "b"}); !ok || string(text) != `["a","b"]` {
		t.Errorf("with a pattern that is not UTF-8: %q", text)
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	if _, ok := wire.EncodePatterns(many[1:]); !ok {
		t.Error("1,000 patterns are too many")
	}
	for _, patterns := range [][]string{many, {strings.Repeat("x", 64<<10)}} {
		if _, ok := wire.EncodePatterns(patterns); ok {
			t.Errorf("%d patterns are published", len(patterns))
		}
	}
	for _, text := range []string{"", "null", "{}", "[1]", `["a"`, `"a"`} {
		if got, ok := wire.DecodePatterns(text); ok {
			t.Errorf("%q became %q", text, got)
		}
	}
}
