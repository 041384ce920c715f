package worker

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lanes makes slots with n lanes, and counts how often each is woken.
func lanes(total, n int, strict bool) (s *slots, all []*laneSlots, wakes []int) {
	s = newSlots(total, strict)
	wakes = make([]int, n)
	for i := range n {
		all = append(all, s.join(&Config{}, func() { wakes[i]++ }))
	}
	return s, all, wakes
}

func mustReserve(t *testing.T, d *laneSlots, weight, priority, want int) {
	t.Helper()
	if got := d.reserve(weight, priority); got != want {
		t.Errorf("reserved %d slots, want %d", got, want)
	}
}

func TestOneLaneGetsAllSlots(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, wakes := lanes(10, 1, strict)
		mustReserve(t, lane[0], 3, 3, 10)
		mustReserve(t, lane[0], 3, 3, 0)
		s.release(4)
		s.release(0)
		mustReserve(t, lane[0], 3, 3, 4)
		if wakes[0] != 0 {
			t.Error("a single lane was woken: the caller that frees its slots does that")
		}
	}
}

func TestLanesShareByWeight(t *testing.T) {
	s, lane, _ := lanes(12, 3, false)
	mustReserve(t, lane[0], 0, 0, 0)
	mustReserve(t, lane[1], 3, 3, 12)
	s.release(12)
	mustReserve(t, lane[0], 1, 1, 3)
	s.release(3)
	mustReserve(t, lane[2], 2, 2, 4)
	mustReserve(t, lane[1], 3, 3, 4) // of 8 free ones
	mustReserve(t, lane[0], 1, 1, 1) // of 4: rounded up, so that the smallest lane gets one
	if free := s.available(); free != 3 {
		t.Errorf("%d slots are free", free)
	}
}

func TestUnmetLanesAreWoken(t *testing.T) {
	s, lane, wakes := lanes(1, 3, false)
	mustReserve(t, lane[0], 1, 1, 1)
	mustReserve(t, lane[1], 1, 1, 0)
	mustReserve(t, lane[2], 0, 0, 0)
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("woken %v times, want %v", wakes, want)
	}
	mustReserve(t, lane[1], 1, 1, 1)
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("a lane that got its slot was woken: %v times", wakes)
	}
	mustReserve(t, lane[0], 1, 1, 1)
	mustReserve(t, lane[1], 1, 1, 0)
	mustReserve(t, lane[1], 0, 0, 0) // other servers took its tasks
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("a lane without demand was woken: %v times", wakes)
	}
}

func TestUnhealthyLaneGetsOneSlot(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, wakes := lanes(10, 2, strict)
		mustReserve(t, lane[0], 5, 5, 10)
		mustReserve(t, lane[1], 1, 1, 0)
		lane[0].setHealthy(false)
		if wakes[1] != 1 {
			t.Errorf("strict %v: the other lane was woken %d times by the failure", strict, wakes[1])
		}
		lane[0].setHealthy(false)
		if wakes[1] != 1 {
			t.Errorf("strict %v: woken again by a known failure", strict)
		}
		s.release(10)
		mustReserve(t, lane[0], 5, 5, 1)
		mustReserve(t, lane[1], 1, 1, 9) // as if the other lane did not exist
		s.release(10)
		lane[0].setHealthy(true)
		if !strict {
			mustReserve(t, lane[1], 1, 1, 2) // of 10, by 1 to 5, rounded up
			continue
		}
		mustReserve(t, lane[1], 1, 1, 0)
		mustReserve(t, lane[0], 5, 5, 10)
	}
}

func TestStrictLanes(t *testing.T) {
	s, lane, wakes := lanes(4, 3, true)
	mustReserve(t, lane[1], 2, 2, 4)
	s.release(4)
	mustReserve(t, lane[0], 3, 3, 4)
	mustReserve(t, lane[1], 2, 2, 0)
	mustReserve(t, lane[2], 2, 2, 0)
	s.release(4)
	mustReserve(t, lane[1], 2, 2, 0) // the most important lane may have more tasks
	before := slices.Clone(wakes)
	mustReserve(t, lane[0], 0, 0, 0) // it has none
	if wakes[1] != before[1]+1 || wakes[2] != before[2]+1 {
		t.Errorf("woken %v times, before %v", wakes, before)
	}
	mustReserve(t, lane[1], 2, 2, 4) // and equal lanes do not block each other
	s.release(4)
	mustReserve(t, lane[2], 2, 2, 4)
}

// While more slots are in use than there are, none is free.
func TestSlotsAreResized(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, wakes := lanes(4, 1, strict)
		mustReserve(t, lane[0], 1, 1, 4)
		for _, step := range []struct{ resize, release, free, reserved int }{
			{resize: 6, free: 2, reserved: 2},
			{resize: 1, free: -5},
			{resize: 2, free: -4},
			{release: 4, free: 0},
			{release: 1, free: 1, reserved: 1},
			{release: 2, free: 2},
			{resize: 5, free: 5, reserved: 5},
		} {
			if step.resize > 0 {
				s.resize(step.resize)
			}
			s.release(step.release)
			if free := s.available(); free != step.free || lane[0].anyFree() != (free > 0) || lane[0].accepts("q") != (free > 0) {
				t.Errorf("strict %t, %+v: %d slots are free, anyFree %t", strict, step, free, lane[0].anyFree())
			}
			if lane[0].unmet = false; step.free <= 0 || step.reserved > 0 {
				mustReserve(t, lane[0], 1, 1, step.reserved)
			}
		}
		if wakes[0] != 0 {
			t.Error("a single lane was woken")
		}
	}
}

// Tasks for which no slot is left, or whose queue was paused while they were fetched, are not
// wanted.
func TestLandAfterChanges(t *testing.T) {
	for _, tt := range []struct {
		name      string
		change    func(s *slots)
		run, free int
	}{
		{"nothing", func(*slots) {}, 4, 0},
		{"fewer slots", func(s *slots) { s.resize(3) }, 3, 0},
		{"more slots", func(s *slots) { s.resize(9) }, 4, 5},
		{"paused", func(s *slots) { s.setPaused("q", true) }, 0, 4},
		{"another queue is paused", func(s *slots) { s.setPaused("other", true) }, 4, 0},
		{"resumed", func(s *slots) { s.setPaused("q", true); s.setPaused("q", false); s.setPaused("q", false) }, 4, 0},
		{"closed", func(s *slots) { s.closed.Store(true) }, 0, 4},
	} {
		s, lane, _ := lanes(4, 1, false)
		r := lane[0].newClaim().(*reservation)
		var fetched int
		r.plan([]*queueState{{name: "q", weight: 1}}, func(_ *queueState, n int) { fetched = n })
		r.sent()
		tt.change(s)
		f := &fetch{tasks: make([]*Attempt, fetched)}
		f.call.Queue = "q"
		var e effects
		r.land(true, []*fetch{f}, &e)
		if fetched != 4 || len(e.run) != tt.run || len(e.unwanted) != 4-tt.run || s.available() != tt.free {
			t.Errorf("%s: fetched %d, %d run, %d are unwanted, %d slots are free", tt.name, fetched, len(e.run), len(e.unwanted), s.available())
		}
	}
}

// A paused queue gets no slots, whatever its weight.
func TestPausedQueueGetsNoSlots(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, _ := lanes(10, 1, strict)
		lane[0].cfg.Strict = strict
		queues := []*queueState{{name: "high", weight: 9}, {name: "low", weight: 1}}
		s.setPaused("high", true)
		got := make(map[string]int)
		lane[0].newClaim().plan(queues, func(q *queueState, n int) { got[q.name] = n })
		if got["high"] != 0 || got["low"] != 10 || lane[0].wants("high") || !lane[0].wants("low") {
			t.Errorf("strict %t: %v", strict, got)
		}
		if queues[0].name != "high" || queues[1].name != "low" {
			t.Error("the list of queues was changed")
		}
		s.setPaused("low", true)
		lane[0].newClaim().plan(queues, func(q *queueState, _ int) { t.Errorf("%s gets slots", q.name) })
	}
}

// The most important queue of a lane became empty: the lane still wants slots, but with a lower
// priority. The lanes in between must be woken.
func TestStrictLaneThatWantsLessWakesOthers(t *testing.T) {
	s, lane, wakes := lanes(4, 2, true)
	mustReserve(t, lane[0], 11, 10, 4)
	mustReserve(t, lane[1], 5, 5, 0)
	s.release(4)
	mustReserve(t, lane[1], 5, 5, 0)
	before := wakes[1]
	mustReserve(t, lane[0], 1, 1, 0)
	if wakes[1] != before+1 {
		t.Error("the lane in between was not woken")
	}
	mustReserve(t, lane[1], 5, 5, 4)
}

// Slots are neither lost nor created, with any sequence of calls.
func TestSlotsAreConserved(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const total, lanes, rounds = 7, 4, 500
			s := newSlots(total, strict)
			var mu sync.Mutex
			used := 0
			take := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				if used += n; used < 0 || used > total {
					t.Errorf("%d of %d slots are in use", used, total)
				}
			}
			var all sync.WaitGroup
			for i := range lanes {
				wake := make(chan struct{}, 1)
				d := s.join(&Config{}, func() { notify(wake) })
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					for got := 0; got < rounds; {
						d.setHealthy(random.IntN(10) > 0)
						n := d.reserve(i+1, i+1)
						if n < 0 {
							t.Errorf("reserved %d slots", n)
						}
						if n == 0 {
							<-wake // a lane that is not woken blocks forever, which synctest reports
							continue
						}
						take(n)
						got += n
						time.Sleep(time.Duration(random.IntN(3)))
						for n > 0 {
							part := 1 + random.IntN(n)
							take(-part)
							s.release(part)
							n -= part
						}
					}
					d.reserve(0, 0)
				})
			}
			all.Wait()
			if free := s.available(); free != total {
				t.Errorf("%d of %d slots are free at the end", free, total)
			}
		})
	}
}

// A lane that waits for tasks is woken when a slot becomes free.
func TestWanted(t *testing.T) {
	s, lane, wakes := lanes(1, 2, false)
	if !lane[1].anyFree() {
		t.Error("a slot is free")
	}
	mustReserve(t, lane[0], 1, 1, 1)
	if lane[1].anyFree() {
		t.Error("no slot is free")
	}
	s.release(1)
	if wakes[1] != 1 {
		t.Errorf("woken %d times", wakes[1])
	}
}
