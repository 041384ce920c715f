package batch

import "testing"

// A second request is at least as large as the first, but a full one always leaves.
func TestGateSecond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		second, full, first, items int
		want                       bool
	}{
		{second: 0, first: 1, items: 1000, want: false},
		{second: 4, first: 1000, items: 3, want: false},
		{second: 4, first: 1000, items: 4, want: true},
		{second: 4, full: 32, first: 1, items: 3, want: false},
		{second: 4, full: 32, first: 1, items: 4, want: true},
		{second: 4, full: 32, first: 10, items: 9, want: false},
		{second: 4, full: 32, first: 10, items: 10, want: true},
		{second: 4, full: 32, first: 100, items: 31, want: false},
		{second: 4, full: 32, first: 100, items: 32, want: true},
	} {
		g := Gate{Second: tt.second, Full: tt.full}
		if !g.Worth(1) {
			t.Errorf("%+v: the first request waits", tt)
		}
		g.Start(tt.first)
		if got := g.Worth(tt.items); got != tt.want {
			t.Errorf("%+v: a second request may leave: %v", tt, got)
		}
		g.Start(tt.items)
		if g.Worth(1000) {
			t.Errorf("%+v: a third request leaves", tt)
		}
	}
}
