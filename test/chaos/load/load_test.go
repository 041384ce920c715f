package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// small is the scale of the tests, which verify the scenarios, not the speed.
var small = options{scale: 0.005, soak: time.Second, progress: io.Discard}

// within is the timeout of a scenario.
const within = 2 * time.Minute

// Scenarios measure goroutines and memory of the process, so they run one after the other.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			figures, err := perform(ctx, s, small)
			if err != nil {
				t.Error(err)
			}
			if len(figures) < 5 {
				t.Errorf("only %d figures", len(figures))
			}
		})
	}
}

// The soak must detect a leak.
func TestSoakFindsLeaks(t *testing.T) {
	var mu sync.Mutex
	var kept [][]byte
	stop := make(chan struct{})
	defer close(stop)
	for name, leak := range map[string]func(){
		"heap grows": func() {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, make([]byte, 8000))
		},
		"goroutines grows": func() { go func() { <-stop }() },
	} {
		t.Run(strings.Fields(name)[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := perform(ctx, scenario{"soak", func(r *run) error { return r.soakWith(leak) }}, small)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("with a leak: %v", err)
			}
		})
	}
	runtime.KeepAlive(kept)
}

func TestGrows(t *testing.T) {
	const seconds, noise = 100, 1000.0
	random := rand.New(rand.NewPCG(1, 2))
	for name, tt := range map[string]struct {
		value func(at float64) float64
		leaks bool
	}{
		"steady":           {func(float64) float64 { return 5000 }, false},
		"noise":            {func(float64) float64 { return 5000 + noise*random.Float64() }, false},
		"falls":            {func(at float64) float64 { return 9000 - 50*at }, false},
		"fills, then rest": {func(at float64) float64 { return min(at, 20) * 1000 }, false},
		"grows a little":   {func(at float64) float64 { return 5000 + at + noise*random.Float64() }, false},
		"grows":            {func(at float64) float64 { return 5000 + 50*at + noise*random.Float64() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var samples []sample
			for at := range seconds {
				samples = append(samples, sample{float64(at), tt.value(float64(at))})
			}
			if _, err := grows("heap", samples, 500); err != nil != tt.leaks {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := grows("heap", make([]sample, 5), 500); err == nil {
		t.Error("a few samples tell something")
	}
}

// Lost and repeated tasks are detected.
func TestTallyDetectsErrors(t *testing.T) {
	r := &run{}
	counts := newTally(3)
	counts.add(0)
	counts.add(2)
	counts.add(2)
	if r.exactlyOnce(counts); len(r.failed) != 1 || r.failed[0].Error() != "1 tasks have not run, 1 more than once" {
		t.Errorf("found %v", r.failed)
	}
}

func TestPayloadsAreVerified(t *testing.T) {
	payload := large(7, 5000).Payload()
	if number, size, err := verify(payload); number != 7 || size != 5000 || err != nil {
		t.Errorf("number %d, %d bytes, error %v", number, size, err)
	}
	broken := bytes.Clone(payload)
	broken[4000]++
	for _, wrong := range [][]byte{broken, payload[:4000], payload[:20], nil} {
		if _, _, err := verify(wrong); err == nil {
			t.Errorf("%d wrong bytes pass", len(wrong))
		}
	}
}

func TestRunScenarios(t *testing.T) {
	for _, args := range []string{"-only nothing", "-scale 0", "-soak -1s", "what", "-bad"} {
		if err := runScenarios(t.Context(), strings.Fields(args), io.Discard, io.Discard); err == nil {
			t.Errorf("%q passes", args)
		}
	}
	var out bytes.Buffer
	if err := runScenarios(t.Context(), strings.Fields("-scale 0.001 -only grow"), &out, io.Discard); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "| grow | processed |") {
		t.Errorf("wrote %q", out.String())
	}
}
