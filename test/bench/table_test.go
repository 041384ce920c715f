package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 100}, 3.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) || !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("median of no values is not NaN")
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var values []float64
	for i := range 100 {
		values = append(values, float64(100-i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if values[0] != 100 {
		t.Error("the values were sorted in place")
	}
	if l := newLatency([]time.Duration{time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond}); *l != (latency{2, 3, 3}) {
		t.Errorf("latency %+v", l)
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	if got := slope([]float64{1, 2, 3, 4}, []float64{10, 12, 14, 16}); math.Abs(got-2) > 1e-9 {
		t.Errorf("got %v, want 2", got)
	}
	if got := slope([]float64{1, 1}, []float64{1, 2}); got != 0 {
		t.Errorf("got %v of a line upwards", got)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234: "1,234", 1234567: "1,234,567", -4321: "-4,321",
		math.NaN(): "", math.Inf(1): "",
	} {
		if got := count(v); got != want {
			t.Errorf("count(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := &table{texts: 1, header: []string{"what", "µs"}}
	table.add("a|b", "1,000")
	table.add("longer", "2")
	var text, markdown strings.Builder
	if err := table.text(&text); err != nil {
		t.Fatal(err)
	}
	if err := table.markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	if want := "what       µs\na|b     1,000\nlonger      2\n"; text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
	if want := "| what | µs |\n| --- | --: |\n| a\\|b | 1,000 |\n| longer | 2 |\n"; markdown.String() != want {
		t.Errorf("got\n%swant\n%s", markdown.String(), want)
	}
}
