package loops

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

// litter is a JanitorBroker: the number of tasks to delete, by queue.
type litter struct {
	completed, archived map[string]int
	broken              map[string]error
	calls               []string
	published           []string
	publishing          error
	called              func()
}

func (l *litter) Filled(_ context.Context, queues []string, _ ...func(wire.Queue) string) ([]string, error) {
	return queues, nil
}

func (l *litter) Purge(_ context.Context, queue string, state wire.State, n int) (int, error) {
	from := map[wire.State]map[string]int{wire.StateCompleted: l.completed, wire.StateArchived: l.archived}[state]
	what := state.String() + " " + queue
	l.called()
	l.calls = append(l.calls, what)
	if err := l.broken[what]; err != nil {
		return 0, err
	}
	n = min(n, from[queue])
	from[queue] -= n
	return n, nil
}

func (l *litter) PublishArchiveLimits(_ context.Context, queues []string) error {
	l.published = append(l.published, queues...)
	return l.publishing
}

func newTestJanitor(queues ...string) (*Janitor, *litter) {
	l := &litter{completed: make(map[string]int), archived: make(map[string]int), broken: make(map[string]error), called: func() {}}
	return &Janitor{Broker: l, Queues: queues, Interval: time.Minute, BatchSize: 10}, l
}

func TestJanitorDeletesInBatches(t *testing.T) {
	for _, c := range []struct{ n, calls int }{{0, 1}, {9, 1}, {10, 2}, {11, 2}, {95, 10}} {
		t.Run(strconv.Itoa(c.n), func(t *testing.T) {
			j, l := newTestJanitor("q")
			l.completed["q"], l.archived["q"] = c.n, 3
			mustTick(t, j.Tick, time.Minute)
			if len(l.calls) != c.calls+1 || l.completed["q"] != 0 || l.archived["q"] != 0 {
				t.Errorf("%d completed and %d archived are left after %q", l.completed["q"], l.archived["q"], l.calls)
			}
		})
	}
}

func TestJanitorWithABrokenQueue(t *testing.T) {
	j, l := newTestJanitor("broken", "q")
	l.broken["completed broken"], l.broken["archived broken"] = errBroken, errCut
	l.completed["q"], l.archived["q"] = 25, 25
	if _, err := j.Tick(context.Background()); !errors.Is(err, errBroken) || !errors.Is(err, errCut) {
		t.Errorf("returned %v", err)
	}
	if l.completed["q"] != 0 || l.archived["q"] != 0 {
		t.Errorf("%d completed and %d archived are left", l.completed["q"], l.archived["q"])
	}
	delete(l.broken, "archived broken")
	l.archived["broken"] = 5
	if _, err := j.Tick(context.Background()); !errors.Is(err, errBroken) || l.archived["broken"] != 0 {
		t.Errorf("%d archived are left; error %v", l.archived["broken"], err)
	}
}

func TestJanitorStops(t *testing.T) {
	j, l := newTestJanitor("p", "q")
	l.completed["p"] = 1000
	ctx, cancel := context.WithCancel(context.Background())
	l.called = func() {
		if len(l.calls) == 2 {
			cancel()
		}
	}
	if _, err := j.Tick(ctx); err != nil {
		t.Error(err)
	}
	if want := []string{"completed p", "completed p", "completed p"}; !slices.Equal(l.calls, want) {
		t.Errorf("called %q, want %q", l.calls, want)
	}
}

// Archiving a task trims, too, so the janitor trims less often than it deletes completed tasks.
func TestJanitorTrimsEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, l := newTestJanitor("q")
		count := func(what string) (n int) {
			for _, call := range l.calls {
				if call == what+" q" {
					n++
				}
			}
			return n
		}
		l.broken["archived q"] = errBroken
		if _, err := j.Tick(context.Background()); !errors.Is(err, errBroken) {
			t.Errorf("returned %v", err)
		}
		clear(l.broken) // it failed, so it is retried at once
		for range 12 {
			mustTick(t, j.Tick, time.Minute)
			time.Sleep(trimEvery / 6)
		}
		if completed, archived := count("completed"), count("archived"); completed != 13 || archived != 3 {
			t.Errorf("checked %d times for completed and %d times for archived tasks", completed, archived)
		}
	})
}

func TestJanitorPublishesLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, l := newTestJanitor("p", "q")
		l.publishing = errBroken // a full Redis, for example
		mustTick(t, j.Tick, time.Minute)
		l.publishing = errCut
		if _, err := j.Tick(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("returned %v", err)
		}
		l.publishing = nil
		for range 3 {
			mustTick(t, j.Tick, time.Minute)
			time.Sleep(publishEvery / 2)
		}
		if want := []string{"p", "q", "p", "q", "p", "q", "p", "q"}; !slices.Equal(l.published, want) {
			t.Errorf("published %q, want %q", l.published, want)
		}
	})
}
