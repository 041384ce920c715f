package worker

import (
	"fmt"
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

// shareOut returns what share gives each queue.
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
				t.Fatalf("%d slots by %v: %d were given", c.n, c.weights, given)
			}
			for _, q := range queues {
				due := float64(turn*c.n*q.weight) / float64(total)
				if off := math.Abs(float64(got[q.name]) - due); off > float64(len(queues)) {
					t.Fatalf("%d slots by %v: after %d turns %s got %d, and %.1f were due", c.n, c.weights, turn, q.name, got[q.name], due)
				}
			}
		}
		for _, q := range queues {
			if want := 3 * c.n * q.weight; got[q.name] != want {
				t.Errorf("%d slots by %v: %s got %d in the end, want %d", c.n, c.weights, q.name, got[q.name], want)
			}
		}
	}
}

func TestShareToOneQueue(t *testing.T) {
	queues := queuesOf(5)
	queues[0].credit = -3
	if got := shareOut(7, queues, false); got["q0"] != 7 {
		t.Errorf("got %v", got)
	}
	if got := shareOut(7, queuesOf(9, 5, 1), true); got["q0"] != 7 || len(got) != 1 {
		t.Errorf("strictly: %v", got)
	}
	for _, strict := range []bool{false, true} {
		if got := shareOut(7, nil, strict); len(got) != 0 {
			t.Errorf("of no queues, strictly %v: %v", strict, got)
		}
		queues := queuesOf(2, 1)
		if got := shareOut(0, queues, strict); len(got) != 0 || queues[0].credit != 0 {
			t.Errorf("of no slots, strictly %v: %v, and a credit of %v", strict, got, queues[0].credit)
		}
	}
}

// A queue that was dry for a while comes back without a claim on what it missed.
func TestShareAfterADryTime(t *testing.T) {
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
		t.Errorf("got %v", got)
	}
}

// Whatever becomes dry and ready in between: never more than n, and no queue gives or takes without end.
func TestShareNeverGivesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 6).Draw(t, "weights")
		strict := rapid.Bool().Draw(t, "strict")
		all := queuesOf(weights...)
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			var ready []*queueState
			for _, q := range all {
				if rapid.IntRange(0, 3).Draw(t, "ready") > 0 {
					ready = append(ready, q)
				} else {
					q.credit = 0 // as a fetch that came back short does
				}
			}
			n := rapid.IntRange(0, 20).Draw(t, "n")
			given := 0
			share(n, ready, strict, func(q *queueState, n int) {
				if n <= 0 {
					t.Errorf("%s was given %d", q.name, n)
				}
				given += n
			})
			if given > n {
				t.Fatalf("%d of %d slots were given", given, n)
			}
			if n > 0 && len(ready) > 0 && given == 0 {
				t.Fatalf("none of %d slots was given to %d queues", n, len(ready))
			}
			for _, q := range all {
				if math.Abs(q.credit) > float64(20*len(all)) {
					t.Fatalf("%s has a credit of %v", q.name, q.credit)
				}
			}
		}
	})
}

func TestReady(t *testing.T) {
	now := time.Now()
	for i, c := range []struct {
		queue *queueState
		want  bool
	}{
		{&queueState{}, true},
		{&queueState{dry: true}, false},
		{&queueState{owed: 1}, false},
		{&queueState{retryAt: now}, true},
		{&queueState{retryAt: now.Add(time.Nanosecond)}, false},
	} {
		if got := c.queue.ready(now); got != c.want {
			t.Errorf("case %d: ready is %v", i, got)
		}
	}
}
