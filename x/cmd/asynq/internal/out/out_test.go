package out

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/x/filter"
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

// Output before an error is complete. An error before the first row writes no empty list.
func TestErrorDuringList(t *testing.T) {
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

// List writes the rows of a long table as they arrive.
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

// Task data cannot control the terminal or break the table.
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

// Numbers keep all their digits in every format.
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

// YAML preserves strings that look like other types.
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

// Filters match the names and values of the JSON fields.
func TestFiltered(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "row0 row1 row2", "count>0 -name:*2": "row1", "row2 OR count:0": "row0 row2", "latency_msec>1m": "", "paused:false count>=2": "row2",
	} {
		var got []string
		for row, err := range Filtered(parsed(t, text), rows(3, nil)) {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			got = append(got, row.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q matches %v, want %s", text, got, want)
		}
	}
	broken := errors.New("broken")
	for _, err := range Filtered(parsed(t, "count>5"), rows(3, broken)) {
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the rows", err)
		}
	}
	var wrong *filter.SyntaxError
	for _, err := range Filtered(parsed(t, "colour:red"), rows(1, nil)) {
		if !errors.As(err, &wrong) {
			t.Errorf("error %v, want a SyntaxError", err)
		}
	}
}

func parsed(t *testing.T, text string) *filter.Rows {
	t.Helper()
	f, err := filter.ParseRows(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "xml", "json=x", "template", "template=", "template={{", "template={{nothing}}"} {
		var o Options
		if err := o.Parse(format); err == nil {
			t.Errorf("format %q was accepted", format)
		}
	}
	var o Options
	if err := o.Parse("template={{.nothing}}"); err != nil {
		t.Fatal(err)
	}
	if err := List(&bytes.Buffer{}, o, columns, rows(1, nil)); err == nil {
		t.Error("an unknown field was accepted")
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

// A column whose cells all have the text Unless appears only with -o wide.
func TestOmittedColumn(t *testing.T) {
	t.Parallel()
	counts := append(slices.Clone(columns[:1]), Column[row]{Head: "COUNT", Right: true, Unless: "0", Cell: columns[1].Cell})
	for _, c := range []struct {
		kind Kind
		rows int
		want string
	}{
		{Table, 0, "NAME\n"},
		{Table, 1, "NAME\nrow0\n"},
		{Table, 2, "NAME  COUNT\nrow0      0\nrow1      1\n"},
		{Wide, 1, "NAME  COUNT\nrow0      0\n"},
	} {
		var b bytes.Buffer
		if err := List(&b, Options{Kind: c.kind}, counts, rows(c.rows, nil)); err != nil || b.String() != c.want {
			t.Errorf("%d rows as %s: %q, %v; want %q", c.rows, c.kind, &b, err, c.want)
		}
	}
}
