package rollup_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rollup"
)

// A quantile is at most 9.1 % off, between 1 µs and 34 days, and text keeps a histogram as it is.
func TestQuantileError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			exponent := rapid.Float64Range(3, math.Log10(float64(30*24*time.Hour))).Draw(t, "exponent")
			return time.Duration(math.Pow(10, exponent))
		}), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var s, read rollup.Stats
		for _, d := range durations {
			s.Duration.Observe(d)
		}
		read.Add(s.Encode())
		slices.Sort(durations)
		want := float64(durations[max(int(math.Ceil(q*float64(len(durations))))-1, 0)])
		const most, rounding = 1.0906, 2 // 2^(1/8); nanoseconds
		if got := float64(read.Duration.Quantile(q)); got > want*most+rounding || want > got*most+rounding {
			t.Errorf("quantile %v is %v, want %v", q, time.Duration(got), time.Duration(want))
		}
		if n := read.Duration.Count(); n != int64(len(durations)) {
			t.Errorf("%d durations, want %d", n, len(durations))
		}
	})
}

// flush takes all batches of queue q.
func flush(r *rollup.Recorder, now time.Time) (batches []*rollup.Batch) {
	for collect := true; ; collect = false {
		b := r.Next("q", now, false, collect)
		if b == nil {
			return batches
		}
		batches = append(batches, b)
		r.Confirm(b, now)
	}
}

// Of 1,000 types and 1,000 kinds of errors, the first are counted by themselves, and all others
// together. Sums are exact.
func TestRecorderLimits(t *testing.T) {
	now := time.Now()
	r := rollup.NewRecorder(func(text string) string { return text })
	const n = 1000
	for i := range n {
		a := rollup.Attempt{Queue: "q", Type: "type" + strconv.Itoa(i), Outcome: rollup.Retried, Duration: time.Second, Wait: -1, Failed: true, Err: strconv.Itoa(i)}
		r.Record(now, &a)
	}
	var all, other, queue rollup.Stats
	var failed, otherFailed int64
	types := 0
	for _, b := range flush(r, now) {
		if len(b.Entries) > 100 || b.Hour != now.Unix()/3600 {
			t.Errorf("a call of %d entries, hour %d", len(b.Entries), b.Hour)
		}
		for _, e := range b.Entries {
			switch {
			case e.Table == rollup.QueueTable:
				queue.Merge(e.Stats)
			case e.Table == rollup.ErrorTable:
				failed += e.Count
				if e.Kind == "" {
					otherFailed += e.Count
				}
			default:
				types++
				all.Merge(e.Stats)
				if e.Type == "" {
					other.Merge(e.Stats)
				}
			}
		}
	}
	if types != rollup.MaxTypes+1 || all.Counts[rollup.Retried] != n || other.Counts[rollup.Retried] != n-rollup.MaxTypes || all.Duration.Count() != n {
		t.Errorf("%d types, %d attempts, %d of other types", types, all.Counts[rollup.Retried], other.Counts[rollup.Retried])
	}
	if queue.Counts != all.Counts || failed != n || otherFailed != n-rollup.MaxKinds {
		t.Errorf("the queue has %v, %d errors, %d of other kinds", queue.Counts, failed, otherFailed)
	}
	if left := flush(r, now); left != nil || len(r.Pending(now)) != 0 {
		t.Errorf("%d calls are left, pending %v", len(left), r.Pending(now))
	}
}

// Attempts count in the minute of Redis in which they ended, and a call without a reply is
// repeated.
func TestRecorderMinutes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 59, 30, 0, time.UTC)
	r := rollup.NewRecorder(func(text string) string { return text })
	r.SetClock(now.Add(15*time.Second).UnixMilli(), now) // 12:59:45
	a := rollup.Attempt{Queue: "q", Type: "t", Duration: -1, Wait: -1}
	r.Record(now, &a)
	r.Record(now.Add(20*time.Second), &a) // 13:00:05
	first := r.Next("q", now, false, true)
	if first == nil || first.Hour != now.Unix()/3600 || len(first.Entries) != 2 || first.Entries[1].Minute%60 != 59 {
		t.Fatalf("first call: %+v", first)
	}
	r.Record(now.Add(21*time.Second), &a)
	if again := r.Next("q", now, false, true); again != first {
		t.Errorf("a call without a reply is not repeated: %+v", again)
	}
	r.Confirm(first, now)
	attempts := int64(0)
	for _, b := range flush(r, now.Add(time.Minute)) {
		if b.Hour != first.Hour+1 || b.Number <= first.Number {
			t.Errorf("second call: %+v", b)
		}
		attempts += b.Entries[1].Stats.Counts[rollup.Succeeded]
	}
	if last := flush(r, now.Add(time.Minute)); attempts+count(last) != 2 {
		t.Errorf("%d attempts of the next hour, then %d", attempts, count(last))
	}
}

func count(batches []*rollup.Batch) (n int64) {
	for _, b := range batches {
		for _, e := range b.Entries {
			if e.Table == rollup.TypeTable {
				n += e.Stats.Counts[rollup.Succeeded]
			}
		}
	}
	return n
}

// The kinds of at most 1,000 new texts are computed in a second.
func TestRecorderBoundsKinds(t *testing.T) {
	computed := 0
	r := rollup.NewRecorder(func(text string) string { computed++; return text[:1] })
	now := time.Now()
	for i := range 5000 {
		a := rollup.Attempt{Queue: "q", Outcome: rollup.Retried, Duration: -1, Wait: -1, Failed: true, Err: fmt.Sprint("text ", i%3000)}
		r.Record(now, &a)
	}
	if computed == 0 || computed > 1000 {
		t.Errorf("computed %d kinds", computed)
	}
}

// TestRecordAllocates requires that an attempt of a known type allocates nothing.
func TestRecordAllocates(t *testing.T) {
	now := time.Now()
	r := rollup.NewRecorder(func(text string) string { return text })
	a := rollup.Attempt{Queue: "q", Type: "t", Outcome: rollup.Retried, Duration: time.Second, Wait: time.Second, Failed: true, Err: "failed"}
	if n := testing.AllocsPerRun(1000, func() { r.Record(now, &a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	now := time.Now()
	r := rollup.NewRecorder(func(text string) string { return text })
	types := make([]string, 20)
	for i := range types {
		types[i] = "email:welcome" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a := rollup.Attempt{Queue: "default", Type: types[i%len(types)], Duration: time.Millisecond, Wait: time.Millisecond}
		r.Record(now, &a)
	}
}
