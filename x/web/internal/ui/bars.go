package ui

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// bars returns a bar for each value, scaled to the maximum. Values above 0 are always visible.
func bars(values []int) template.HTML {
	const step, width, height, least = 5.0, 4.0, 28.0, 2.0
	most := max(1, slices.Max(append([]int{1}, values...)))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %g %g" preserveAspectRatio="none" aria-hidden="true">`, step*float64(len(values)), height)
	for i, v := range values {
		h, class := 1.0, "nothing"
		if v > 0 {
			h, class = least+float64(v)/float64(most)*(height-least), "some"
		}
		fmt.Fprintf(&b, `<rect class="%s" x="%g" y="%.2f" width="%g" height="%.2f"/>`, class, step*float64(i), height-h, width, h)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // contains only numbers
}
