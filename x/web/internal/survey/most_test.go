package survey

import (
	"errors"
	"testing"
)

func TestAtMost(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	numbers := func(n int) func(func(int, error) bool) {
		return func(yield func(int, error) bool) {
			for i := range n {
				if !yield(i, nil) {
					return
				}
			}
			yield(0, broken)
		}
	}
	for _, c := range []struct {
		all, most, read, errs int
		cut                   bool
	}{{3, 5, 3, 1, false}, {5, 5, 5, 1, false}, {6, 5, 5, 0, true}, {0, 0, 0, 1, false}, {1, 0, 0, 0, true}} {
		read, errs, cut := 0, 0, false
		for _, err := range AtMost(c.most, &cut, numbers(c.all)) {
			if err != nil {
				errs++
			} else {
				read++
			}
		}
		if read != c.read || errs != c.errs || cut != c.cut {
			t.Errorf("of %d at most %d: read %d, errors %d, cut %v", c.all, c.most, read, errs, cut)
		}
	}
	cut := false
	for _, err := range AtMost(2, &cut, numbers(5)) {
		if err != nil || cut {
			t.Errorf("error %v, cut %v", err, cut)
		}
		break
	}
	if cut {
		t.Error("a loop that breaks is cut")
	}
}
