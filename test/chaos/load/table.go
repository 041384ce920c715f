package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// figure is a line of the report.
type figure struct {
	scenario, measure string
	value             float64
	unit              string
	remark            string
}

// writeTable writes the figures as a Markdown table.
func writeTable(out io.Writer, figures []figure) error {
	var b strings.Builder
	b.WriteString("| scenario | measure | value | unit | |\n|---|---|--:|---|---|\n")
	for _, f := range figures {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.scenario, f.measure, number(f.value), f.unit, strings.ReplaceAll(f.remark, "|", `\|`))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// number formats a value with about three digits, large ones with commas.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}
