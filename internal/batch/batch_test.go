package batch

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// item is an item of a recorder.
type item struct {
	id, sends int
	panics    bool
}

// recorder is a peer that takes between one and two seconds for a request, and checks each.
type recorder struct {
	t      testing.TB
	second int

	mu       sync.Mutex
	requests []int // the number of items of each
	inFlight int
	most     int
}

func (r *recorder) send(items []*item) {
	r.mu.Lock()
	r.requests = append(r.requests, len(items))
	if r.inFlight > 0 && (r.second == 0 || len(items) < r.second) {
		r.t.Errorf("a second request has %d items, want at least %d", len(items), r.second)
	}
	if len(items) == 0 {
		r.t.Error("a request without items")
	}
	r.inFlight++
	r.most = max(r.most, r.inFlight)
	panics := false
	for _, it := range items {
		it.sends++
		panics = panics || it.panics
	}
	r.mu.Unlock()
	time.Sleep(time.Second + rand.N(time.Second))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	if panics {
		panic("planted")
	}
}

func (r *recorder) wantRequests(want ...int) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.requests, want) {
		r.t.Errorf("requests of %v items, want %v", r.requests, want)
	}
}

func (r *recorder) sends(it *item) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.sends
}

// wantIdle fails unless nothing is left.
func wantIdle[T any](t *testing.T, b *Batcher[T]) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gate.n != 0 || b.live != 0 || len(b.waiting) != 0 || b.lingering {
		t.Errorf("at the end: %d requests in flight, %d items, %d entries, lingering %v",
			b.gate.n, b.live, len(b.waiting), b.lingering)
	}
}

// Random calls end, withdraw and panic at random times. Each item is sent exactly once, or was
// withdrawn. A forgotten hand-off blocks all goroutines, which synctest reports.
func TestStress(t *testing.T) {
	for _, cfg := range []Config[*item]{{}, {Second: 5}, {Second: 1}, {Second: 5, Linger: time.Second}, {Linger: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{t: t, second: cfg.Second}
			cfg.Send = r.send
			b := New(cfg)
			var all sync.WaitGroup
			for g := range 40 {
				all.Go(func() {
					for i := range 50 {
						time.Sleep(rand.N(10 * time.Second))
						it := &item{id: g*1000 + i, panics: rand.IntN(20) == 0}
						ctx := context.Background()
						var cancel context.CancelFunc = func() {}
						switch rand.IntN(4) {
						case 0:
							ctx, cancel = context.WithTimeout(ctx, rand.N(3*time.Second))
						case 1:
							c := b.Add(it)
							time.Sleep(rand.N(2 * time.Second))
							withdrawn := b.Withdraw(c)
							if b.Withdraw(c) {
								t.Errorf("item %d withdrawn twice", it.id)
							}
							time.Sleep(10 * time.Second)
							if n := r.sends(it); withdrawn == (n == 1) || n > 1 {
								t.Errorf("item %d: withdrawn %v, sent %d times", it.id, withdrawn, n)
							}
							continue
						}
						start := time.Now()
						sent, err := b.Do(ctx, it)
						ended := ctx.Err() != nil
						if took := time.Since(start); took > cfg.Linger+4*time.Second {
							t.Errorf("item %d took %v, want at most that of two requests", it.id, took)
						}
						cancel()
						if err != nil && !ended && !panicked(err) {
							t.Errorf("item %d: %v", it.id, err)
						}
						if it.panics && sent && err == nil {
							t.Errorf("item %d panicked without an error", it.id)
						}
						if err == nil && r.sends(it) != 1 {
							t.Errorf("item %d: a reply after %d sends", it.id, r.sends(it))
						}
						time.Sleep(10 * time.Second)
						if n := r.sends(it); sent != (n == 1) || n > 1 {
							t.Errorf("item %d: sent %v, %d times", it.id, sent, n)
						}
					}
				})
			}
			all.Wait()
			wantIdle(t, b)
			// In a rare run, no second request has enough items. In TestSecondRequest, one has.
			if most := 1 + min(cfg.Second, 1); r.most > most {
				t.Errorf("Second %d: %d requests in flight at once, want at most %d", cfg.Second, r.most, most)
			}
		})
	}
}

func TestLoneCallIsSentInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var caller []byte
		b := New(Config[int]{Send: func([]int) { caller = stack() }})
		if sent, err := b.Do(t.Context(), 1); !sent || err != nil {
			t.Fatal(sent, err)
		}
		own := stack()
		if bytes.Equal(caller, own) {
			t.Error("sent inline although the context can end")
		}
		synctest.Wait()
		if sent, err := b.Do(context.Background(), 1); !sent || err != nil || !bytes.Equal(caller, own) {
			t.Errorf("sent %v, error %v, on the goroutine %q, want that of the caller %q", sent, err, caller, own)
		}
		wantIdle(t, b)
	})
}

// A call under constant load waits for one request in flight, and shares the next.
func TestBoundsLatencyUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t, second: 32}
		b := New(Config[*item]{Send: r.send, Second: 32})
		ctx, stop := context.WithCancel(context.Background())
		var others sync.WaitGroup
		for range 20 {
			others.Go(func() {
				for ctx.Err() == nil {
					_, _ = b.Do(context.Background(), &item{})
				}
			})
		}
		for range 10 {
			start := time.Now()
			if _, err := b.Do(context.Background(), &item{}); err != nil || time.Since(start) > 4*time.Second {
				t.Errorf("a call under load took %v, error %v", time.Since(start), err)
			}
		}
		stop()
		others.Wait()
		wantIdle(t, b)
	})
}

// A second request is sent only with enough items. Fewer wait until the first returns.
func TestSecondRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const second = 32
		r := &recorder{t: t, second: second}
		b := New(Config[*item]{Send: r.send, Second: second})
		var all sync.WaitGroup
		call := func(n int) {
			for range n {
				all.Go(func() { _, _ = b.Do(context.Background(), &item{}) })
			}
		}
		call(1)
		r.wantRequests(1)
		call(second - 1)
		r.wantRequests(1)
		call(1)
		r.wantRequests(1, second)
		call(second)
		r.wantRequests(1, second)
		all.Wait()
		r.wantRequests(1, second, second)
		wantIdle(t, b)
	})
}

// Without a second request, requests follow each other, so the items of one goroutine are in order.
func TestRequestsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t}
		b := New(Config[*item]{Send: r.send})
		b.Add(&item{})
		r.wantRequests(1)
		for range 100 {
			b.Add(&item{})
		}
		r.wantRequests(1)
		time.Sleep(5 * time.Second)
		r.wantRequests(1, 100)
		wantIdle(t, b)
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t}
		b := New(Config[*item]{Send: r.send, Linger: time.Second})
		for range 3 {
			if !b.Withdraw(b.Add(&item{})) {
				t.Error("an item left before the linger ended")
			}
		}
		time.Sleep(5 * time.Second)
		r.wantRequests()
		b.Add(&item{})
		time.Sleep(time.Second / 2)
		b.Add(&item{})
		r.wantRequests()
		time.Sleep(time.Second / 2)
		r.wantRequests(2)
		time.Sleep(5 * time.Second)
		wantIdle(t, b)
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t}
		b := New(Config[*item]{Send: r.send})
		reason := errors.New("reason")

		ended, end := context.WithCancelCause(context.Background())
		end(reason)
		if sent, err := b.Do(ended, &item{}); sent || !errors.Is(err, reason) {
			t.Errorf("with an ended context: sent %v, error %v", sent, err)
		}
		r.wantRequests()

		short, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, reason)
		defer cancel()
		if sent, err := b.Do(short, &item{}); !sent || !errors.Is(err, reason) {
			t.Errorf("the context ended during the request: sent %v, error %v", sent, err)
		}
		r.wantRequests(1) // still in flight
		short, cancel = context.WithTimeoutCause(context.Background(), time.Millisecond, reason)
		defer cancel()
		if sent, err := b.Do(short, &item{}); sent || !errors.Is(err, reason) {
			t.Errorf("the context ended before the request: sent %v, error %v", sent, err)
		}
		time.Sleep(5 * time.Second)
		r.wantRequests(1)
		wantIdle(t, b)
	})
}

// panicked reports whether err is that of a request with an item that panics.
func panicked(err error) bool {
	return err != nil && strings.Contains(err.Error(), "panicked: planted")
}

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{t: t}
		reported := 0
		b := New(Config[*item]{Send: r.send, Panicked: func(error) { reported++ }})
		if sent, err := b.Do(context.Background(), &item{panics: true}); !sent || !panicked(err) {
			t.Errorf("inline: sent %v, error %v", sent, err)
		}
		if sent, err := b.Do(t.Context(), &item{panics: true}); !sent || !panicked(err) {
			t.Errorf("in the background: sent %v, error %v", sent, err)
		}
		if sent, err := b.Do(context.Background(), &item{}); !sent || err != nil || reported != 2 {
			t.Errorf("afterwards: sent %v, error %v, %d reports", sent, err, reported)
		}
		wantIdle(t, b)
	})
}

// stack returns the first line of the caller's stack, which names its goroutine.
func stack() []byte {
	line, _, _ := bytes.Cut(debug.Stack(), []byte("\n"))
	return line
}
