package loops

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/runner"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	errCut    = errors.New("connection reset by peer")
	errBroken = refusal("WRONGTYPE")
)

// refusal is an error reply of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// logbook collects log lines.
type logbook struct{ proctest.Log }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// mustHave checks the number of lines that contain all the words.
func (l *logbook) mustHave(t *testing.T, n int, words ...string) {
	t.Helper()
	got := 0
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			got++
		}
	}
	if got != n {
		t.Errorf("%d log lines have %q, want %d:\n%s", got, words, n, l)
	}
}

// run runs a loop until the returned function is called.
func run(t *testing.T, tick runner.Tick, wake <-chan struct{}) (stop func()) {
	r := runner.New(slog.New(slog.DiscardHandler), runner.Loop{Tick: tick, Wake: wake})
	r.Start(context.Background())
	return func() {
		if err := r.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func mustTick(t *testing.T, tick runner.Tick, want time.Duration) {
	t.Helper()
	if rest, err := tick(context.Background()); rest != want || err != nil {
		t.Errorf("delay %v, error %v, want %v", rest, err, want)
	}
}
