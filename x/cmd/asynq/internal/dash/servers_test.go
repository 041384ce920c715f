package dash

import (
	"testing"

	"github.com/asynq-go/asynq"
)

func TestServerShowsItsTypes(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     string
	}{{nil, "low 1"}, {[]string{}, "low 1 · handles no types"}, {[]string{"a", "b:"}, "low 1 · handles a, b:"}} {
		if got := priorities(&asynq.ServerInfo{Queues: map[string]int{"low": 1}, Patterns: c.patterns}); got != c.want {
			t.Errorf("%q: %q, want %q", c.patterns, got, c.want)
		}
	}
}
