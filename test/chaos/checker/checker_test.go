package checker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// TestCheckAcceptsValidHistories verifies that the rules are sound: valid histories have no
// violations.
func TestCheckAcceptsValidHistories(t *testing.T) {
	t.Parallel()
	var losses, repeats int
	names := make(map[string]bool)
	seeds := []uint64{3606, 7466, 26373} // rare histories that were once rejected
	for seed := range uint64(150) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		crashFree := seed%3 == 2
		rules := simRules
		rules.CrashCounts = !crashFree
		events := simulate(seed, simOptions{tasks: 220, calm: seed%10 == 0, rate: []float64{0.005, 0.02, 0.06, 0.15}[seed%4], crashFree: crashFree, noCrashes: crashFree})
		r := Check(events, rules)
		if !r.OK() || len(r.Oddities) > 0 {
			t.Fatalf("seed %d:\n%s", seed, r)
		}
		losses += sum(r.Losses)
		repeats += sum(r.Repeats)
		for name := range r.Repeats {
			names[name] = true
		}
		if seed%10 == 0 {
			if p, f := r.Width(); p+f > 0 {
				t.Errorf("seed %d: without a fault, %d processed and %d failures are left open", seed, p, f)
			}
		}
		// The order of the events must not matter.
		shuffled := slices.Clone(events)
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := Check(shuffled, rules); again.String() != r.String() {
			t.Fatalf("seed %d: shuffled events get another report:\n%s\n%s", seed, r, again)
		}
	}
	t.Logf("%d losses and %d repeated runs explained, by %v", losses, repeats, names)
	if losses == 0 {
		t.Error("no history lost a task")
	}
	for _, name := range []string{"kill", "stop", "network", "shutdown", "restart", "failover", "crash"} {
		if !names[name] {
			t.Errorf("no run was repeated because of %q", name)
		}
	}
}

// TestCheckDoesNotPanic feeds torn histories.
func TestCheckDoesNotPanic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var events []history.Event
		for _, e := range simulate(seed, simOptions{tasks: 80, rate: 0.02}) {
			switch rng.IntN(12) {
			case 0:
				continue
			case 1:
				e.Task = ""
			case 2:
				e.At = rng.Int64() - rng.Int64()
			case 3:
				e.Run, e.Process = "", ""
			case 4:
				e.Kind = "?"
			case 5:
				e.Retried, e.MaxRetry = rng.IntN(5)-2, rng.IntN(5)-2
			case 6:
				e.Until, e.Loses = rng.Int64()-rng.Int64(), -e.Loses
			case 7:
				e.Queue, e.Group, e.Members = "other", "g", []string{e.Task, "nobody"}
			}
			events = append(events, e)
		}
		for _, rules := range []Rules{{}, simRules, {Lease: -1, Extend: 1 << 62, MayLose: true, ArchiveSize: 1}} {
			if report := Check(events, rules).String(); report == "" {
				t.Fatal("no report")
			}
		}
	}
	if r := Check(nil, Rules{}); !r.OK() {
		t.Error(r)
	}
}
