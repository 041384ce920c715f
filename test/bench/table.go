package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is a table with a header. The first columns are text, the others numbers.
type table struct {
	header []string
	texts  int
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// text writes the table as aligned columns.
func (t *table) text(out io.Writer) error {
	widths := make([]int, len(t.header))
	all := append([][]string{t.header}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < t.texts {
				line.WriteString(cell + space + "  ")
			} else {
				line.WriteString(space + cell + "  ")
			}
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes the table as Markdown.
func (t *table) markdown(out io.Writer) error {
	rule := make([]string, len(t.header))
	for i := range rule {
		rule[i] = "---"
		if i >= t.texts {
			rule[i] = "--:"
		}
	}
	for _, row := range append([][]string{t.header, rule}, t.rows...) {
		escaped := make([]string, len(row))
		for i, cell := range row {
			escaped[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		if _, err := fmt.Fprintln(out, "| "+strings.Join(escaped, " | ")+" |"); err != nil {
			return err
		}
	}
	return nil
}

// count formats a number with about three digits, large ones with commas; "" for NaN.
func count(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case v == 0:
		return "0"
	case a < 0.1:
		return strconv.FormatFloat(v, 'f', 4, 64)
	case a < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	sign := ""
	if v < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// times formats a ratio; "" for NaN.
func times(v float64) string {
	if c := count(v); c != "" {
		return c + " ×"
	}
	return ""
}
