package ui

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/asynq-go/asynq"
)

// stateNames lists the states in the order in which pages show them.
var stateNames = []string{"active", "pending", "scheduled", "retry", "aggregating", "archived", "completed"}

// count is the number of tasks in one state.
type count struct {
	State string
	N     int
}

// counts returns the number of tasks of a queue in each state.
func counts(q *asynq.QueueInfo) []count {
	n := map[string]int{
		"active": q.Active, "pending": q.Pending, "scheduled": q.Scheduled, "retry": q.Retry,
		"aggregating": q.Aggregating, "archived": q.Archived, "completed": q.Completed,
	}
	all := make([]count, len(stateNames))
	for i, state := range stateNames {
		all[i] = count{state, n[state]}
	}
	return all
}

// stateBar returns a bar with the distribution of tasks over the states. States with any tasks are
// always visible.
func stateBar(all []count) template.HTML {
	const width, least = 240.0, 4.0
	total, share := 0, width
	for _, c := range all {
		if c.N > 0 {
			total += c.N
			share -= least
		}
	}
	if total == 0 {
		return `<svg class="bar" viewBox="0 0 240 8" preserveAspectRatio="none" aria-hidden="true"><rect class="nothing" width="240" height="8"/></svg>`
	}
	var b strings.Builder
	b.WriteString(`<svg class="bar" viewBox="0 0 240 8" preserveAspectRatio="none" aria-hidden="true">`)
	x := 0.0
	for _, c := range all {
		if c.N > 0 {
			w := least + share*float64(c.N)/float64(total)
			fmt.Fprintf(&b, `<rect class="state-%s" x="%.2f" width="%.2f" height="8"/>`, c.State, x, w)
			x += w
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // contains only numbers and state names
}

// spark returns a line through values, oldest first, scaled to the maximum. NaN is a gap.
func spark(class string, values []float64) template.HTML {
	const width, height, top = 120.0, 28.0, 2.0
	values = known(values)
	highest := 0.0
	for _, v := range values {
		if v > highest { // not NaN
			highest = v
		}
	}
	var line, area strings.Builder
	step := width / math.Max(1, float64(len(values)-1))
	pen, from := "M", 0.0
	for i, v := range values {
		if math.IsNaN(v) {
			closeArea(&area, pen, from, float64(i-1)*step)
			pen = "M"
			continue
		}
		x, y := float64(i)*step, height-1
		if highest > 0 {
			y = height - 1 - v/highest*(height-1-top)
		}
		if pen == "M" {
			from = x
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", pen, x, y)
		fmt.Fprintf(&area, "%s%.1f %.1f", pen, x, y)
		pen = "L"
	}
	closeArea(&area, pen, from, width)
	return template.HTML(`<svg class="spark ` + template.HTMLEscapeString(class) +
		`" viewBox="0 0 120 28" preserveAspectRatio="none" aria-hidden="true"><path class="area" d="` + area.String() +
		`"/><path class="line" d="` + line.String() + `"/></svg>`)
}

// known drops the values before the first known one, but keeps enough of them that a short history
// does not look like a long one.
func known(values []float64) []float64 {
	const least = 30
	first := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
	return values[max(0, min(first, len(values)-least)):]
}

// closeArea closes the area below a line, if one was started.
func closeArea(area *strings.Builder, pen string, from, to float64) {
	if pen == "L" {
		fmt.Fprintf(area, "L%.1f 28L%.1f 28Z", to, from)
	}
}
