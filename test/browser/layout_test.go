package browser_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// The title of a chart and its values are side by side if there is room, and otherwise below each
// other, without overlaps. Four charts are two rows of two, or four rows.
func TestChartsLayout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.add(t, "a", "")
	}
	s.knows(t, "default")
	b := open(t, s.url)
	for _, width := range []int64{390, 700, 800, 1024, 1180, 1280, 1440, 1920} {
		b.do(chromedp.EmulateViewport(width, 900))
		for _, path := range []string{"/", q("/queue", "queue", "default")} {
			b.visit(path)
			b.until(`document.querySelectorAll("figure[data-chart] .values b").length === 6`)
			// The widest values.
			eval[bool](b, `(document.querySelectorAll("figure[data-chart] .values b").forEach((e) => e.textContent = "207.6k"), true)`)
			where := fmt.Sprintf("%s at %d px", path, width)
			if over := eval[[]string](b, `[...document.querySelectorAll("figure[data-chart]")].flatMap((f) => {
				const boxes = ["figcaption", ".values", ".plot"].map((part) => { const range = document.createRange(); range.selectNodeContents(f.querySelector(part));
					return part === ".plot" ? f.querySelector(part).getBoundingClientRect() : range.getBoundingClientRect() });
				const around = f.getBoundingClientRect();
				const crossing = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
				return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => crossing(a, b)).map(() => f.id + " overlaps itself"))
					.concat(boxes.filter((a) => a.left < around.left || a.right > around.right).map(() => f.id + " is left"))
			})`); len(over) > 0 {
				t.Errorf("%s: %q", where, over)
			}
			rows := eval[[]int](b, `[...document.querySelectorAll(".charts")].flatMap((grid) => {
				const tops = [...grid.children].map((f) => Math.round(f.getBoundingClientRect().top));
				return [...new Set(tops)].map((top) => tops.filter((t) => t === top).length) })`)
			for _, n := range rows {
				if n != rows[0] || n != 1 && n != 2 && n != 4 {
					t.Errorf("%s: rows of %d charts", where, rows)
					break
				}
			}
			if wide := eval[int](b, `document.documentElement.scrollWidth`); int64(wide) > width {
				t.Errorf("%s: the page is %d px wide", where, wide)
			}
		}
	}
}
