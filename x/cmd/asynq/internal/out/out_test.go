package out

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

type row struct {
	Name    string         `json:"name"`
	Count   int64          `json:"count"`
	Latency int64          `json:"latency_msec"`
	Memory  int64          `json:"memory_bytes"`
	Paused  bool           `json:"paused"`
	More    map[string]any `json:"more,omitempty"`
}

var columns = []Column[row]{
	{Head: "NAME", Cell: func(r row) string { return r.Name }},
	{Head: "COUNT", Right: true, Cell: func(r row) string { return fmt.Sprint(r.Count) }},
	{Head: "PAUSED", Wide: true, Cell: func(r row) string { return fmt.Sprint(r.Paused) }, Style: func(row) Style { return Warn }},
}

func rows(n int, end error) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for i := range n {
			if !yield(row{Name: fmt.Sprintf("row%d", i), Count: int64(i)}, nil) {
				return
			}
		}
		if end != nil {
			yield(row{}, end)
		}
	}
}

func text(t *testing.T, format string, rows iter.Seq2[row, error]) (string, error) {
	t.Helper()
	var o Options
	if err := o.Parse(format); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := List(&b, o, columns, rows)
	return b.String(), err
}

// What is written before an error is whole, and an error before the first row leaves no empty list behind.
func TestErrorOnTheWay(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, format := range []string{"table", "json", "ndjson", "yaml", "template={{.name}}"} {
		got, err := text(t, format, rows(2, broken))
		if !errors.Is(err, broken) || !strings.Contains(got, "row1") {
			t.Errorf("%s: %q, %v; want both rows and the error", format, got, err)
		}
		if format == "json" && !json.Valid([]byte(got)) {
			t.Errorf("not JSON: %s", got)
		}
		if got, err := text(t, format, rows(0, broken)); got != "" || !errors.Is(err, broken) {
			t.Errorf("%s: %q, %v; want nothing but the error", format, got, err)
		}
	}
}

// A long table is written as its rows come.
func TestLongTable(t *testing.T) {
	t.Parallel()
	got, err := text(t, "table", rows(3*widthRows, nil))
	if lines := strings.Count(got, "\n"); err != nil || lines != 3*widthRows+1 {
		t.Errorf("%d lines, %v", lines, err)
	}
	var b bytes.Buffer
	seen := 0
	err = List(&b, Options{}, columns, func(yield func(row, error) bool) {
		for r, err := range rows(widthRows+1, nil) {
			if seen++; seen == widthRows+1 && b.Len() == 0 {
				t.Error("nothing was written until the end")
			}
			yield(r, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A task cannot drive the terminal, nor break the table.
func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\tc": "a b c", "\x1b[31mred": "\uFFFD[31mred", "\u202egnp.exe": "\uFFFDgnp.exe", "gr\u00fc\u00df": "gr\u00fc\u00df", "a\xffb": "a\uFFFDb",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// Numbers keep all of their digits in every format.
func TestExactNumbers(t *testing.T) {
	t.Parallel()
	const big = 9007199254740993 // 2^53 + 1
	for _, format := range []string{"json", "ndjson", "yaml", "template={{.count}}"} {
		got, err := text(t, format, func(yield func(row, error) bool) { yield(row{Count: big}, nil) })
		if err != nil || !strings.Contains(got, fmt.Sprint(big)) {
			t.Errorf("%s: %q, %v; want %d", format, got, err, big)
		}
	}
}

// YAML keeps texts that look like something else.
func TestYAMLTexts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"true", "1", "null", "a: b", "- x", "<&>", "2026-01-01", "y", ""} {
		got, err := text(t, "yaml", func(yield func(row, error) bool) { yield(row{Name: name}, nil) })
		if err != nil {
			t.Fatal(err)
		}
		if plain := "name: " + name + "\n"; name != "<&>" && name != "y" && strings.Contains(got, plain) {
			t.Errorf("%q is written as %q", name, got)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	r := row{Name: "mail:fast", Count: 7, Latency: 90_000, Memory: 2_000_000}
	for filter, want := range map[string]bool{
		"": true, "name=mail:*": true, "name=mail": false, "name!=mail": true, "name~FAST": true, "name~slow": false,
		"count=7": true, "count!=7": false, "count>6": true, "count>7": false, "count>=7": true, "count<=6": false, "count<8 name=m*": true,
		"count<8 name=x*": false, "paused=false": true, "paused!=false": false, "latency_msec>1m": true, "latency_msec>2m": false,
		"memory_bytes>=2MB": true, "memory_bytes>2MB": false, "name>a": true,
	} {
		f, err := ParseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		got := f == nil
		if f != nil {
			if got, err = f.Admits(r); err != nil {
				t.Errorf("%s: %v", filter, err)
			}
		}
		if got != want {
			t.Errorf("%q admits: %v, want %v", filter, got, want)
		}
	}
	for _, filter := range []string{"count", "=7", "count>many", "colour=red", "name=[", "count!7"} {
		f, err := ParseFilter(filter)
		if err == nil {
			_, err = f.Admits(r)
		}
		var bad *FilterError
		if !errors.As(err, &bad) {
			t.Errorf("%q: error %v; want a FilterError", filter, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "xml", "json=x", "template", "template=", "template={{", "template={{nothing}}"} {
		var o Options
		if err := o.Parse(format); err == nil {
			t.Errorf("format %q was taken", format)
		}
	}
	var o Options
	if err := o.Parse("template={{.nothing}}"); err != nil {
		t.Fatal(err)
	}
	if err := List(&bytes.Buffer{}, o, columns, rows(1, nil)); err == nil {
		t.Error("a field that is not there was taken")
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
