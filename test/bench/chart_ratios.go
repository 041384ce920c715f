package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the chart of ratios in pixels.
const (
	ratioLabels = 190 // width of the names
	ratioBars   = 460
	ratioValues = 60 // width of the numbers
	ratioRow    = 20
	ratioTop    = 34
	ratioFoot   = 26
)

// chartedRatios are the workloads of the chart of ratios, and their titles.
var chartedRatios = []struct{ workload, title string }{
	{name("enqueue", "goroutines", 1), "enqueue, 1 goroutine"},
	{name("enqueue", "goroutines", 8), "enqueue, 8 goroutines"},
	{name("enqueue", "goroutines", 64), "enqueue, 64 goroutines"},
	{name("enqueue", "payload", "10kB"), "enqueue, 10 kB"},
	{name("enqueue", "unique", 64), "enqueue, unique"},
	{name("enqueue", "batch", 1000), "enqueue, batches of 1,000"},
	{name("process", "concurrency", 1), "process, concurrency 1"},
	{name("process", "concurrency", 10), "process, concurrency 10"},
	{name("process", "concurrency", 100), "process, concurrency 100"},
	{name("process", "concurrency", 1000), "process, concurrency 1,000"},
	{name("produce+process", "concurrency", 100), "enqueue and process"},
	{name("process", "queues", "6:3:1"), "process, three queues"},
	{name("process", "unique", 100), "process, unique"},
	{name("process", "retention", "result"), "process, results"},
	{name("process", "retry", "0s"), "process, all fail once"},
	{name("process", "payload", "10kB"), "process, 10 kB"},
	{name("process", "payload", "1MB"), "process, 1 MB"},
}

// ratioBar is a row of the chart.
type ratioBar struct {
	title           string
	ours, low, high float64
	floor           float64 // NaN if not measured
}

// ratios draws the tasks per second of this library and of the floor, relative to the reference.
func (r *report) ratios() string {
	var bars []ratioBar
	for _, c := range chartedRatios {
		rates := &figureOf{r, -1}
		reference := rates.figure(c.workload, sideReference, (*figures).rate)
		bar := ratioBar{
			title: c.title,
			ours:  rates.ours(c.workload, (*figures).rate) / reference,
			floor: rates.figure(c.workload, sideFloor, (*figures).rate) / reference,
		}
		if math.IsNaN(bar.ours) {
			continue
		}
		bar.low, bar.high = bar.ours, bar.ours
		for rates.round = 0; ; rates.round++ {
			ratio := rates.versus(sideReference, c.workload, (*figures).rate)
			if math.IsNaN(ratio) {
				break
			}
			bar.low, bar.high = min(bar.low, ratio), max(bar.high, ratio)
		}
		bars = append(bars, bar)
	}
	return drawRatios(bars)
}

// drawRatios draws a bar for each ratio, on a logarithmic axis.
func drawRatios(bars []ratioBar) string {
	least, most := 1.0, 2.0
	for _, b := range bars {
		least, most = min(least, b.low), max(most, b.high)
		if b.floor > 0 {
			least, most = min(least, b.floor), max(most, b.floor)
		}
	}
	from, to := math.Floor(math.Log2(least)), math.Ceil(math.Log2(most))
	x := scale{from: from * math.Log10(2), to: to * math.Log10(2), at: ratioLabels, end: ratioLabels + ratioBars}
	width, foot := ratioLabels+ratioBars+ratioValues, ratioTop+len(bars)*ratioRow
	var out strings.Builder
	svgHeader(&out, width, foot+ratioFoot, "Tasks per second relative to hibiken")
	fmt.Fprintf(&out, `<rect class="bar" x="10" y="9" width="28" height="10"/><text x="44" y="19">asynq-go, with the range of the rounds</text>`+"\n")
	fmt.Fprintf(&out, `<path class="line" d="M270 7v14"/><text x="278" y="19">floor</text>`+"\n")
	fmt.Fprintf(&out, `<path class="axis" d="M330 7v14"/><text x="338" y="19">hibiken = 1</text>`+"\n")
	for e := from; e <= to; e++ {
		class := "grid"
		if e == 0 {
			class = "axis"
		}
		fmt.Fprintf(&out, `<path class="%s" d="M%.1f %dV%d"/><text x="%.1f" y="%d" text-anchor="middle">%g ×</text>`+"\n",
			class, x.of(math.Exp2(e)), ratioTop-4, foot, x.of(math.Exp2(e)), foot+15, math.Exp2(e))
	}
	for i, b := range bars {
		y := float64(ratioTop + i*ratioRow)
		mid := y + ratioRow/2 - 2
		left, right := min(x.of(1), x.of(b.ours)), max(x.of(1), x.of(b.ours))
		fmt.Fprintf(&out, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, ratioLabels-8, mid+4, html.EscapeString(b.title))
		fmt.Fprintf(&out, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="10"/>`, left, mid-5, right-left)
		fmt.Fprintf(&out, `<path class="axis" d="M%.1f %.1fH%.1f"/>`, x.of(b.low), mid, x.of(b.high))
		if b.floor > 0 {
			fmt.Fprintf(&out, `<path class="line" d="M%.1f %.1fv14"/>`, x.of(b.floor), mid-7)
		}
		fmt.Fprintf(&out, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", width-4, mid+4, times(b.ours))
	}
	out.WriteString("</svg>\n")
	return out.String()
}
