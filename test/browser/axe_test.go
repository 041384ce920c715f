package browser_test

import (
	_ "embed"
	"strings"
)

//go:embed axe/axe.min.js
var axe string

// accessible fails if axe reports serious violations on the page.
func (b *tab) accessible(what string) {
	b.t.Helper()
	if !eval[bool](b, "typeof axe === 'object'") {
		eval[bool](b, axe+"; true")
	}
	found := eval[[]string](b, `
		axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations
			.filter(({impact}) => impact === "serious" || impact === "critical")
			.map(({id, help, nodes}) => id + ": " + help + "\n    " + nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " — " + n.failureSummary.replaceAll("\n", " ")).join("\n    ")))`)
	if len(found) > 0 {
		b.t.Errorf("%s: axe finds %d violations:\n  %s", what, len(found), strings.Join(found, "\n  "))
	}
}
