package loops

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// delays is a ForwardBroker with delayed tasks.
type delays struct {
	mu      sync.Mutex
	due     map[string][]time.Time // by queue
	dropped map[string]int
	broken  map[string]error
	failing error
	latency time.Duration // age of the replies
	looks   []time.Duration
	moves   []time.Duration // when tasks were moved, since the start
	began   time.Time
}

func newDelays() *delays {
	return &delays{due: make(map[string][]time.Time), dropped: make(map[string]int), broken: make(map[string]error), began: time.Now()}
}

func (d *delays) add(queue string, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due[queue] = append(d.due[queue], time.Now().Add(delay))
}

func (d *delays) Filled(_ context.Context, queues []string, _ ...func(wire.Queue) string) ([]string, error) {
	defer time.Sleep(d.latency)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks = append(d.looks, time.Since(d.began))
	return slices.DeleteFunc(slices.Clone(queues), func(queue string) bool {
		return len(d.due[queue]) == 0 && d.broken[queue] == nil
	}), d.failing
}

func (d *delays) Forward(_ context.Context, queues []string, _ map[string]bool) []rdb.Due {
	defer time.Sleep(d.latency)
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []rdb.Due
	for _, queue := range queues {
		due := rdb.Due{Queue: queue, Next: -1, Err: d.broken[queue], Dropped: d.dropped[queue]}
		d.due[queue] = slices.DeleteFunc(d.due[queue], func(at time.Time) bool {
			left := time.Until(at)
			if left <= 0 {
				d.moves = append(d.moves, time.Since(d.began))
				return true
			}
			if due.Next < 0 || left < due.Next {
				due.Next = left
			}
			return false
		})
		all = append(all, due)
	}
	return all
}

func (d *delays) mustHaveMoved(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.moves, want) {
		t.Errorf("moved tasks at %v, want %v", d.moves, want)
	}
	d.moves = nil
}

func (d *delays) mustHaveScanned(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.looks, want) {
		t.Errorf("called at %v, want %v", d.looks, want)
	}
	d.looks = nil
}

const forwardInterval = 5 * time.Second

func newTestForwarder(queues ...string) (*Forwarder, *delays, *logbook) {
	d, l := newDelays(), &logbook{}
	return NewForwarder(d, queues, forwardInterval, l.logger()), d, l
}

func TestForwarderSleepsUntilATaskIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, _ := newTestForwarder("p", "q")
		d.add("p", 1500*time.Millisecond)
		d.add("q", 700*time.Millisecond)
		d.add("q", 2*time.Minute)
		stop := run(t, f.Tick, f.Wake())
		time.Sleep(2 * time.Second)
		d.mustHaveMoved(t, 700*time.Millisecond, 1500*time.Millisecond)
		d.mustHaveScanned(t, 0, 700*time.Millisecond, 1500*time.Millisecond)
		time.Sleep(10 * time.Second) // no longer than the interval, because other processes schedule tasks, too
		d.mustHaveScanned(t, 6500*time.Millisecond, 11500*time.Millisecond)
		stop()
	})
}

func TestForwarderWithNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newTestForwarder("q")
		mustTick(t, f.Tick, forwardInterval)
	})
}

func TestForwarderExpects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, _ := newTestForwarder("q")
		f.Expect(time.Second) // before the start: the first tick is near
		stop := run(t, f.Tick, f.Wake())
		time.Sleep(time.Second)
		d.mustHaveScanned(t, 0)
		f.Expect(forwardInterval - time.Second) // not before the next tick
		f.Expect(time.Hour)
		d.mustHaveScanned(t)
		d.add("q", 2*time.Second)
		f.Expect(2 * time.Second)
		d.mustHaveScanned(t, time.Second)
		f.Expect(2 * time.Second) // the next tick
		f.Expect(3 * time.Second)
		d.mustHaveScanned(t)
		time.Sleep(2 * time.Second)
		d.mustHaveMoved(t, 3*time.Second)
		stop()
	})
}

// A tick may not see a task that is announced during it.
func TestForwarderExpectsDuringATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, _ := newTestForwarder("q")
		d.latency = 100 * time.Millisecond
		stop := run(t, f.Tick, f.Wake())
		time.Sleep(50 * time.Millisecond)
		for range 10 {
			d.add("q", time.Second)
			f.Expect(time.Second)
			f.Expect(time.Minute)
		}
		time.Sleep(time.Second)
		d.mustHaveScanned(t, 0, 1050*time.Millisecond) // and not once for each
		time.Sleep(time.Second)
		d.mustHaveMoved(t, slices.Repeat([]time.Duration{1150 * time.Millisecond}, 10)...)
		stop()
	})
}

func TestForwarderWithABrokenQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, l := newTestForwarder("broken", "q")
		d.broken["broken"] = errBroken
		d.add("q", time.Second)
		d.add("q", 3*time.Second)
		stop := run(t, f.Tick, f.Wake())
		time.Sleep(4 * time.Second)
		d.mustHaveMoved(t, time.Second, 3*time.Second)
		l.mustHave(t, 1, "not forwarded", "WRONGTYPE") // and not with every tick
		stop()
	})
}

func TestForwarderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, _ := newTestForwarder("p", "q")
		d.failing = errCut
		if _, err := f.Tick(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("returned %v", err)
		}
		d.failing = nil
		d.broken["p"], d.broken["q"] = errBroken, errCut
		if _, err := f.Tick(context.Background()); !errors.Is(err, errBroken) || !errors.Is(err, errCut) {
			t.Errorf("returned %v", err)
		}
		clear(d.broken)
		mustTick(t, f.Tick, forwardInterval)
	})
}

func TestForwarderLogsDroppedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, l := newTestForwarder("p", "q")
		d.add("q", time.Second)
		d.dropped["q"] = 3
		mustTick(t, f.Tick, time.Second)
		l.mustHave(t, 1, "dropped IDs", "queue=q", "count=3")
	})
}
