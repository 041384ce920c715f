package browser_test

import (
	_ "embed"
	"strings"

	"github.com/chromedp/chromedp"
)

//go:embed axe/axe.min.js
var axe string

// accessible fails if axe finds anything serious on the page.
func (b *tab) accessible(what string) {
	b.t.Helper()
	if !eval[bool](b, "typeof axe === 'object'") {
		if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](axe+"; true")); err != nil {
			b.t.Fatal(err)
		}
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`
		axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations
			.filter(({impact}) => impact === "serious" || impact === "critical")
			.map(({id, help, nodes}) => id + ": " + help + "\n    " + nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " — " + n.failureSummary.replaceAll("\n", " ")).join("\n    ")))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(found) > 0 {
		b.t.Errorf("%s: axe finds %d violations:\n  %s", what, len(found), strings.Join(found, "\n  "))
	}
}
