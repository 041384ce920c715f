package out

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func listed(items ...row) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for _, r := range items {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	got, err := text(t, "csv", listed(row{Name: "a,\"b\"\nc", Count: -3, More: map[string]any{"x": 1}}, row{Name: "=cmd()"}, row{Name: "\x1b[2J\xff"}))
	want := "name,count,latency_msec,memory_bytes,paused,more\n\"a,\"\"b\"\"\nc\",-3,0,0,false,\"{\"\"x\"\":1}\"\n'=cmd(),0,0,0,false\n\\x1b[2J\ufffd,0,0,0,false\n"
	if got != want || err != nil {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	if got, err := text(t, "csv", rows(2, errors.New("broken"))); err == nil || !strings.HasSuffix(got, "row1,1,0,0,false\n") {
		t.Errorf("with an error: %q, %v", got, err)
	}
}

func TestSorted(t *testing.T) {
	t.Parallel()
	in := listed(row{Name: "b", Count: 9}, row{Name: "a", Count: 10}, row{Name: "c", Count: 9, Paused: true})
	for by, want := range map[string]string{"": "bac", "count": "bca", "-count": "abc", "count,-name": "cba", "-paused,name": "cab", "name": "abc"} {
		got := ""
		for r, err := range Sorted(by, in) {
			if err != nil {
				t.Fatal(err)
			}
			got += r.Name
		}
		if got != want {
			t.Errorf("by %q: %s, want %s", by, got, want)
		}
	}
	var unknown *UnknownFieldError
	for _, err := range Sorted("count,size", in) {
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `"size": use one of count, latency_msec`) {
			t.Errorf("an unknown field: %v", err)
		}
	}
	broken := errors.New("broken")
	n := 0
	var last error
	for _, err := range Sorted("name", rows(2, broken)) {
		n, last = n+1, err
	}
	if n != 3 || !errors.Is(last, broken) {
		t.Errorf("%d rows, error %v; want two rows and the error", n, last)
	}
}

// A table fits the width of the terminal: columns shrink to their minimum, and then the least
// important ones are dropped and reported.
func TestWidth(t *testing.T) {
	t.Parallel()
	columns := []Column[row]{
		{Head: "NAME", Cell: func(r row) string { return r.Name }},
		{Head: "TEXT", Shrink: 10, Cell: func(r row) string { return strings.Repeat("世", int(r.Count)) }},
		{Head: "COUNT", Right: true, Rank: 1, Cell: func(r row) string { return fmt.Sprint(r.Count) }},
		{Head: "LATENCY", Right: true, Rank: 2, Cell: func(r row) string { return fmt.Sprint(r.Latency) }},
	}
	for width, want := range map[int]string{0: "", 80: "", 50: "", 30: "LATENCY", 20: "COUNT LATENCY", 5: "COUNT LATENCY"} {
		var dropped []string
		var b bytes.Buffer
		o := Options{Width: width, Dropped: func(heads []string) { dropped = heads }}
		if err := List(&b, o, slices.Clone(columns), listed(row{Name: "first", Count: 20}, row{Name: "second", Count: 3})); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(dropped, " "); got != want {
			t.Errorf("width %d: dropped %q, want %q", width, got, want)
		}
		for line := range strings.Lines(b.String()) {
			if got := ansi.StringWidth(line); width >= 20 && got > width {
				t.Errorf("width %d: %q has %d cells", width, line, got)
			}
		}
		if full := strings.Repeat("世", 20); (width == 0 || width == 80) != strings.Contains(b.String(), full) {
			t.Errorf("width %d: %s", width, b.String())
		}
	}
}

// A stream writes each row when it arrives.
func TestStream(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	n := 0
	err := List(&b, Options{Stream: true}, columns, func(yield func(row, error) bool) {
		for n = range 3 {
			if !yield(row{Name: "x"}, nil) || strings.Count(b.String(), "\n") != n+2 {
				t.Errorf("after %d rows: %q", n+1, b.String())
			}
		}
	})
	if err != nil || n != 2 {
		t.Errorf("%d rows, error %v", n, err)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", 105000: "105,000", -999: "-999", 1234567: "1,234,567"} {
		if got := Number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
