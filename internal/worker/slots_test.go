package worker

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lanes makes slots with lanes that count how often they are woken.
func lanes(total, n int, strict bool) (s *slots, all []*demand, wakes []int) {
	s = newSlots(total, strict)
	wakes = make([]int, n)
	for i := range n {
		all = append(all, s.join(func() { wakes[i]++ }))
	}
	return s, all, wakes
}

func mustReserve(t *testing.T, s *slots, d *demand, weight, priority, want int) {
	t.Helper()
	if got := s.reserve(d, weight, priority); got != want {
		t.Errorf("reserved %d slots, want %d", got, want)
	}
}

func TestOneLaneGetsAllSlots(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, wakes := lanes(10, 1, strict)
		mustReserve(t, s, lane[0], 3, 3, 10)
		mustReserve(t, s, lane[0], 3, 3, 0)
		s.release(4)
		s.release(0)
		mustReserve(t, s, lane[0], 3, 3, 4)
		if wakes[0] != 0 {
			t.Error("a single lane was woken: who frees its slots does that")
		}
	}
}

func TestLanesShareByWeight(t *testing.T) {
	s, lane, _ := lanes(12, 3, false)
	mustReserve(t, s, lane[0], 0, 0, 0)
	mustReserve(t, s, lane[1], 3, 3, 12)
	s.release(12)
	mustReserve(t, s, lane[0], 1, 1, 3)
	s.release(3)
	mustReserve(t, s, lane[2], 2, 2, 4)
	mustReserve(t, s, lane[1], 3, 3, 4) // of 8 free ones
	mustReserve(t, s, lane[0], 1, 1, 1) // of 4: rounded up, so that the smallest lane gets one
	if free := s.available(); free != 3 {
		t.Errorf("%d slots are free", free)
	}
}

func TestUnmetLanesAreWoken(t *testing.T) {
	s, lane, wakes := lanes(1, 3, false)
	mustReserve(t, s, lane[0], 1, 1, 1)
	mustReserve(t, s, lane[1], 1, 1, 0)
	mustReserve(t, s, lane[2], 0, 0, 0)
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("woken %v times, want %v", wakes, want)
	}
	mustReserve(t, s, lane[1], 1, 1, 1)
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("a lane that got its slot was woken: %v times", wakes)
	}
	mustReserve(t, s, lane[0], 1, 1, 1)
	mustReserve(t, s, lane[1], 1, 1, 0)
	mustReserve(t, s, lane[1], 0, 0, 0) // its tasks went elsewhere
	s.release(1)
	if want := []int{0, 1, 0}; !slices.Equal(wakes, want) {
		t.Errorf("a lane that wants nothing any more was woken: %v times", wakes)
	}
}

func TestUnhealthyLaneGetsOneSlot(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, lane, wakes := lanes(10, 2, strict)
		mustReserve(t, s, lane[0], 5, 5, 10)
		mustReserve(t, s, lane[1], 1, 1, 0)
		s.setHealthy(lane[0], false)
		if wakes[1] != 1 {
			t.Errorf("strict %v: the other lane was woken %d times by the trouble", strict, wakes[1])
		}
		s.setHealthy(lane[0], false)
		if wakes[1] != 1 {
			t.Errorf("strict %v: woken again by trouble that was known", strict)
		}
		s.release(10)
		mustReserve(t, s, lane[0], 5, 5, 1)
		mustReserve(t, s, lane[1], 1, 1, 9) // as if the other were not there
		s.release(10)
		s.setHealthy(lane[0], true)
		if !strict {
			mustReserve(t, s, lane[1], 1, 1, 2) // of 10, by 1 to 5, rounded up
			continue
		}
		mustReserve(t, s, lane[1], 1, 1, 0)
		mustReserve(t, s, lane[0], 5, 5, 10)
	}
}

func TestStrictLanes(t *testing.T) {
	s, lane, wakes := lanes(4, 3, true)
	mustReserve(t, s, lane[1], 2, 2, 4)
	s.release(4)
	mustReserve(t, s, lane[0], 3, 3, 4)
	mustReserve(t, s, lane[1], 2, 2, 0)
	mustReserve(t, s, lane[2], 2, 2, 0)
	s.release(4)
	mustReserve(t, s, lane[1], 2, 2, 0) // the most important lane may have more tasks
	before := slices.Clone(wakes)
	mustReserve(t, s, lane[0], 0, 0, 0) // it has not
	if wakes[1] != before[1]+1 || wakes[2] != before[2]+1 {
		t.Errorf("woken %v times, before %v", wakes, before)
	}
	mustReserve(t, s, lane[1], 2, 2, 4) // and equals do not hold each other up
	s.release(4)
	mustReserve(t, s, lane[2], 2, 2, 4)
}

// A lane whose most important queue became dry wants slots still, but for less: those in between must not sleep on.
func TestStrictLaneThatWantsLessWakesOthers(t *testing.T) {
	s, lane, wakes := lanes(4, 2, true)
	mustReserve(t, s, lane[0], 11, 10, 4)
	mustReserve(t, s, lane[1], 5, 5, 0)
	s.release(4)
	mustReserve(t, s, lane[1], 5, 5, 0)
	before := wakes[1]
	mustReserve(t, s, lane[0], 1, 1, 0)
	if wakes[1] != before+1 {
		t.Error("the lane in between was not woken")
	}
	mustReserve(t, s, lane[1], 5, 5, 4)
}

// However lanes come and go, slots are neither lost nor made.
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
				d := s.join(func() { notify(wake) })
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					for got := 0; got < rounds; {
						s.setHealthy(d, random.IntN(10) > 0)
						n := s.reserve(d, i+1, i+1)
						if n < 0 {
							t.Errorf("reserved %d slots", n)
						}
						if n == 0 {
							<-wake // a lane that is forgotten blocks for ever, which the bubble reports
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
					s.reserve(d, 0, 0)
				})
			}
			all.Wait()
			if free := s.available(); free != total {
				t.Errorf("%d of %d slots are free in the end", free, total)
			}
		})
	}
}

// A lane that waits for tasks cannot use slots that are not there, but it is told when there are.
func TestWanted(t *testing.T) {
	s, lane, wakes := lanes(1, 2, false)
	if !s.wanted(lane[1]) {
		t.Error("a slot is free")
	}
	mustReserve(t, s, lane[0], 1, 1, 1)
	if s.wanted(lane[1]) {
		t.Error("no slot is free")
	}
	s.release(1)
	if wakes[1] != 1 {
		t.Errorf("woken %d times", wakes[1])
	}
}
