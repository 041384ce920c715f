package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the chart in pixels.
const (
	panelWidth  = 210
	panelHeight = 170
	marginLeft  = 46
	marginTop   = 34
	marginRight = 12
	marginFoot  = 34
	legendTop   = 30
)

// style uses the colors of the page, or those of the system if the chart is a separate image.
const style = `<style>
svg { color: #24292f; font: 11px sans-serif; }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3; } }
text { fill: currentColor; }
.axis, .grid { stroke: currentColor; fill: none; }
.grid { opacity: 0.15; }
.line { stroke: currentColor; fill: none; stroke-width: 2; }
.other { stroke-dasharray: 5 4; opacity: 0.6; }
.dot { fill: currentColor; }
.bar { fill: #0969da; opacity: 0.7; }
@media (prefers-color-scheme: dark) { .bar { fill: #4493f8; } }
</style>
`

// point is a point of a panel, in the units of the panel.
type point struct{ x, y float64 }

// panel is one small chart with logarithmic axes.
type panel struct {
	title  string
	series [][]point // ours, the reference
}

// chart draws the cost of a task as things grow: a column per dimension, a row per figure.
func (r *report) chart() string {
	var columns [][]panel
	for _, d := range r.dimensions {
		var column []panel
		for _, c := range []struct {
			title  string
			figure func(*figures) float64
		}{{"tasks/s", (*figures).rate}, {"Redis CPU, µs/task", redisMicros}} {
			p := panel{title: c.title + " by " + d.name}
			for _, side := range []string{sideOurs, sideReference} {
				var line []point
				for _, v := range d.values {
					if y := r.median(growthName(d.name, v), side, c.figure); y > 0 {
						line = append(line, point{float64(v), y})
					}
				}
				p.series = append(p.series, line)
			}
			column = append(column, p)
		}
		columns = append(columns, column)
	}
	return draw(columns)
}

// draw arranges the panels in a grid.
func draw(columns [][]panel) string {
	rows := 0
	for _, column := range columns {
		rows = max(rows, len(column))
	}
	width, height := max(len(columns), 1)*panelWidth, legendTop+rows*panelHeight
	var out strings.Builder
	svgHeader(&out, width, height, "The cost of a task as things grow")
	for i, side := range []string{sideOurs, sideReference} {
		x := 10 + 110*i
		fmt.Fprintf(&out, `<path class="%s" d="M%d 15h28"/><text x="%d" y="19">%s</text>`+"\n", lineClass(i), x, x+34, side)
	}
	for c, column := range columns {
		for i := range column {
			column[i].draw(&out, float64(c*panelWidth), float64(legendTop+i*panelHeight))
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// svgHeader begins a chart.
func svgHeader(out *strings.Builder, width, height int, label string) {
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n%s",
		width, height, width, height, label, style)
}

func lineClass(series int) string {
	if series > 0 {
		return "line other"
	}
	return "line"
}

// scale maps numbers to a range of pixels, logarithmically.
type scale struct {
	from, to float64 // exponents of ten
	at, end  float64 // pixels
}

// newScale returns a scale of whole powers of ten that covers all values.
func newScale(values []float64, at, end float64) scale {
	s := scale{from: math.Inf(1), to: math.Inf(-1), at: at, end: end}
	for _, v := range values {
		s.from = min(s.from, math.Floor(math.Log10(v)))
		s.to = max(s.to, math.Ceil(math.Log10(v)))
	}
	if s.from == s.to {
		s.to++
	}
	return s
}

func (s scale) of(v float64) float64 { return s.at + (math.Log10(v)-s.from)/(s.to-s.from)*(s.end-s.at) }

// draw writes the panel with its upper left corner at x0, y0.
func (p *panel) draw(out *strings.Builder, x0, y0 float64) {
	var xs, ys []float64
	for _, line := range p.series {
		for _, at := range line {
			xs = append(xs, at.x)
			ys = append(ys, at.y)
		}
	}
	if len(xs) == 0 {
		return // not measured
	}
	left, right := x0+marginLeft, x0+panelWidth-marginRight
	top, foot := y0+marginTop, y0+panelHeight-marginFoot
	x, y := newScale(xs, left, right), newScale(ys, foot, top)
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f">%s</text>`+"\n", left, y0+marginTop-12, html.EscapeString(p.title))
	fmt.Fprintf(out, `<path class="axis" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", left, top, foot, right)
	for e := y.from; e <= y.to; e++ {
		v := math.Pow10(int(e))
		fmt.Fprintf(out, `<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y.of(v), right, left-5, y.of(v)+4, power(v))
	}
	for e := x.from; e <= x.to; e++ {
		v := math.Pow10(int(e))
		fmt.Fprintf(out, `<path class="grid" d="M%.1f %.1fV%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x.of(v), top, foot, x.of(v), foot+15, power(v))
	}
	for i, line := range p.series {
		var points []string
		for _, at := range line {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.of(at.x), y.of(at.y)))
			fmt.Fprintf(out, `<circle class="dot" cx="%.1f" cy="%.1f" r="2.5"/>`, x.of(at.x), y.of(at.y))
		}
		if len(points) > 0 {
			fmt.Fprintf(out, `<polyline class="%s" points="%s"/>`+"\n", lineClass(i), strings.Join(points, " "))
		}
	}
}

// power formats a power of ten: 0.1, 10, 1k, 100k, 1M.
func power(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
