package parity

import (
	"slices"
	"testing"
	"time"
)

// seen returns a report with pairs of aspects and values.
func seen(elapsed time.Duration, pairs ...string) *report {
	r := &report{Elapsed: elapsed}
	for pair := range slices.Chunk(pairs, 2) {
		r.Seen = append(r.Seen, struct{ Aspect, Value string }{pair[0], pair[1]})
	}
	return r
}

// TestCheckTable plants differences in reports, and errors in the table.
func TestCheckTable(t *testing.T) {
	theirs := map[string]*report{
		"same":    seen(0, "result", "1"),
		"time":    seen(0, "result", "at ⟦1.0⟧"),
		"late":    seen(3*time.Second, "result", "at ⟦1.0⟧"),
		"early":   seen(0, "result", "at ⟦1.0⟧"),
		"result":  seen(0, "result", "1", "error", "none"),
		"words":   seen(0, "fails", "true", "error", "a", "errors.Is", "none"),
		"is":      seen(0, "fails", "true", "error", "a", "errors.Is", "none"),
		"code":    seen(0, "fails", "true", "error", `NOT_FOUND: queue "a" does not exist`, "errors.Is", "none"),
		"missing": seen(0, "result", "1"),
		"added":   seen(0),
	}
	ours := map[string]*report{
		"same":    seen(0, "result", "1"),
		"time":    seen(0, "result", "at ⟦2.9⟧"),
		"late":    seen(0, "result", "at ⟦6.0⟧"),
		"early":   seen(0, "result", "at ⟦6.0⟧"),
		"result":  seen(0, "result", "2", "error", "none"),
		"words":   seen(0, "fails", "true", "error", "b", "errors.Is", "none"),
		"is":      seen(0, "fails", "true", "error", "b", "errors.Is", " X"),
		"code":    seen(0, "fails", "true", "error", "b", "errors.Is", "none"),
		"missing": seen(0),
		"added":   seen(0, "redis key", "1"),
	}
	table := []listed{
		{keys: []string{"result", "gone | *", "same"}},
		{keys: []string{"* | error"}, only: wordingOnly},
	}
	j := checkTable(theirs, ours, table, []string{"* | redis key", "* | redis other"})
	var unlisted []string
	for _, d := range j.unlisted {
		unlisted = append(unlisted, d.key())
	}
	if want := []string{"code | error", "early | result", "is | error", "is | errors.Is", "missing | result"}; !slices.Equal(unlisted, want) {
		t.Errorf("unlisted: %q, want %q", unlisted, want)
	}
	if want := []string{"* | redis other", "gone | *", "same"}; !slices.Equal(j.stale, want) {
		t.Errorf("stale: %q, want %q", j.stale, want)
	}
	if !slices.Equal(j.counts, []int{1, 1}) || j.rows != len(theirs) {
		t.Errorf("%d rows, counts %v", j.rows, j.counts)
	}
}

func TestPatterns(t *testing.T) {
	for _, p := range []struct {
		pattern, key string
		want         bool
	}{
		{"a", "a | b", true},
		{"a", "ab | b", false},
		{"a | b", "a | b", true},
		{"a | b", "a | bc", false},
		{"a*", "abc | d", true},
		{"a* | d", "abc | d", true},
		{"a*c | d", "abc | d", true},
		{"a*c | d", "abc | e", false},
		{"* | *b", "a | b b", true},
		{"*x* | *", "abc | d", false},
	} {
		if got := matches(p.pattern, p.key); got != p.want {
			t.Errorf("%q fits %q: %t", p.pattern, p.key, got)
		}
	}
}
