package worker

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func queuesOf(weights ...int) []*queueState {
	queues := make([]*queueState, len(weights))
	for i, w := range weights {
		queues[i] = &queueState{name: fmt.Sprint("q", i), weight: w}
	}
	return queues
}

// shareOut returns the shares of each queue by name.
func shareOut(n int, queues []*queueState, strict bool) map[string]int {
	shares := make(map[string]int)
	share(n, queues, strict, func(q *queueState, n int) { shares[q.name] += n })
	return shares
}

func TestShareIsExactOverTime(t *testing.T) {
	for _, c := range []struct {
		n       int
		weights []int
	}{
		{1, []int{6, 3, 1}},
		{2, []int{6, 3, 1}},
		{10, []int{6, 3, 1}},
		{7, []int{6, 3, 1}},
		{1, []int{1, 1}},
		{3, []int{1, 1, 1, 1, 1}},
		{1, []int{1, 1000}},
		{500, []int{2, 3}},
	} {
		queues := queuesOf(c.weights...)
		total := 0
		for _, w := range c.weights {
			total += w
		}
		got := make(map[string]int)
		for turn := 1; turn <= 3*total; turn++ {
			given := 0
			for name, n := range shareOut(c.n, queues, false) {
				got[name] += n
				given += n
			}
			if given != c.n {
				t.Fatalf("%d slots by %v: %d shared", c.n, c.weights, given)
			}
			for _, q := range queues {
				due := float64(turn*c.n*q.weight) / float64(total)
				if off := math.Abs(float64(got[q.name]) - due); off > float64(len(queues)) {
					t.Fatalf("%d slots by %v: after %d rounds %s got %d, want about %.1f", c.n, c.weights, turn, q.name, got[q.name], due)
				}
			}
		}
		for _, q := range queues {
			if want := 3 * c.n * q.weight; got[q.name] != want {
				t.Errorf("%d slots by %v: %s got %d in total, want %d", c.n, c.weights, q.name, got[q.name], want)
			}
		}
	}
}

func TestShareToOneQueue(t *testing.T) {
	queues := queuesOf(5)
	queues[0].credit = -3
	if got := shareOut(7, queues, false); got["q0"] != 7 {
		t.Errorf("returned %v", got)
	}
	if got := shareOut(7, queuesOf(9, 5, 1), true); got["q0"] != 7 || len(got) != 1 {
		t.Errorf("strict: %v", got)
	}
	for _, strict := range []bool{false, true} {
		if got := shareOut(7, nil, strict); len(got) != 0 {
			t.Errorf("no queues, strict %v: %v", strict, got)
		}
		queues := queuesOf(2, 1)
		if got := shareOut(0, queues, strict); len(got) != 0 || queues[0].credit != 0 {
			t.Errorf("no slots, strict %v: %v, credit %v", strict, got, queues[0].credit)
		}
	}
}

// Queues with bundles alternate: a round trip serves few of them, none waits for more round trips
// than bundles for all need, and shares stay exact.
func TestShareInBundles(t *testing.T) {
	const n, bundle, turns = 48, 12, 500
	weights := make([]int, 100)
	total := 0
	for i := range weights {
		weights[i] = 1 + i%3
		total += weights[i]
	}
	queues := queuesOf(weights...)
	for _, q := range queues {
		q.bundle = bundle
	}
	got, waited := make(map[string]int), make(map[string]int)
	for turn := 1; turn <= turns; turn++ {
		given, shares := 0, shareOut(n, queues, false)
		for _, n := range shares {
			given += n
		}
		if given != n || len(shares) > n/bundle {
			t.Fatalf("%d slots shared among %d queues, want %d among at most %d", given, len(shares), n, n/bundle)
		}
		for _, q := range queues {
			got[q.name] += shares[q.name]
			if waited[q.name]++; shares[q.name] > 0 {
				waited[q.name] = 0
			}
			each := float64(n*q.weight) / float64(total)
			if most := 2*bundle/each + 1; float64(waited[q.name]) > most {
				t.Fatalf("%s has waited for %d round trips, want at most %.0f", q.name, waited[q.name], most)
			}
			if off := math.Abs(float64(got[q.name]) - float64(turn)*each); off > 2*bundle {
				t.Fatalf("after %d round trips %s got %d, want about %.1f", turn, q.name, got[q.name], float64(turn)*each)
			}
		}
	}
}

// A bundle that is not more than the share of a queue changes nothing.
func TestBundleBelowTheShare(t *testing.T) {
	queues := queuesOf(6, 3, 1)
	for _, q := range queues {
		q.bundle = 10
	}
	if got, want := shareOut(100, queues, false), map[string]int{"q0": 60, "q1": 30, "q2": 10}; !maps.Equal(got, want) {
		t.Errorf("returned %v, want %v", got, want)
	}
}

// A queue that was empty for a while has no claim to the slots that it missed.
func TestShareAfterEmptyPeriod(t *testing.T) {
	queues := queuesOf(1, 1)
	for range 101 {
		shareOut(1, queues[:1], false)
	}
	got := make(map[string]int)
	for range 10 {
		for name, n := range shareOut(1, queues, false) {
			got[name] += n
		}
	}
	if got["q0"] != 5 || got["q1"] != 5 {
		t.Errorf("returned %v", got)
	}
}

// With any sequence of empty and ready queues, share never gives more than n, and the credit of a
// queue is bounded.
func TestShareNeverGivesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 6).Draw(t, "weights")
		strict := rapid.Bool().Draw(t, "strict")
		all := queuesOf(weights...)
		for _, q := range all {
			q.bundle = rapid.SampledFrom([]int{0, 1, 12}).Draw(t, "bundle")
		}
		for range rapid.IntRange(1, 60).Draw(t, "trips") {
			var ready []*queueState
			for _, q := range all {
				if rapid.IntRange(0, 3).Draw(t, "ready") > 0 {
					ready = append(ready, q)
				} else {
					q.credit = 0 // like a fetch that returned too few tasks
				}
			}
			n := rapid.IntRange(0, 20).Draw(t, "n")
			given := 0
			share(n, ready, strict, func(q *queueState, n int) {
				if n <= 0 {
					t.Errorf("%s got %d", q.name, n)
				}
				given += n
			})
			if given > n {
				t.Fatalf("%d of %d slots shared", given, n)
			}
			if n > 0 && len(ready) > 0 && given == 0 {
				t.Fatalf("none of %d slots shared among %d queues", n, len(ready))
			}
			for _, q := range all {
				if math.Abs(q.credit) > float64(20*len(all)) {
					t.Fatalf("credit of %s: %v", q.name, q.credit)
				}
			}
		}
	})
}

func TestFetchable(t *testing.T) {
	now := time.Now()
	for i, c := range []struct {
		queue *queueState
		want  bool
	}{
		{&queueState{}, true},
		{&queueState{phase: empty}, false},
		{&queueState{phase: paused}, false},
		{&queueState{phase: atCapacity}, false},
		{&queueState{phase: unknown}, false},
		{&queueState{unsettled: 1}, false},
		{&queueState{retryAt: now}, true},
		{&queueState{retryAt: now.Add(time.Nanosecond)}, false},
	} {
		if got := c.queue.fetchable(now); got != c.want {
			t.Errorf("case %d: fetchable is %v", i, got)
		}
	}
}
