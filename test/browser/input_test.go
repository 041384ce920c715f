package browser_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// aim returns the position of the first element that matches a selector and contains a text, when a
// user can click on it: the scripts have started, htmx handles the element (it starts after the
// page is complete, and an update can insert a new element), the element is visible and enabled,
// and nothing covers it. It records the target of the next click.
const aim = `((selector, text) => {
	if (document.readyState !== "complete") return [];
	const fits = (e) => !e.disabled && e.getClientRects().length > 0 && e.textContent.includes(text);
	const e = [...document.querySelectorAll(selector)].find(fits);
	if (!e) return [];
	const sender = e.closest("[hx-get]:not(main), [hx-post]");
	if (window.htmx && sender && !sender.hasAttribute("data-htmx-powered")) return [];
	e.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
	const r = e.getClientRects()[0];
	const x = r.left + Math.min(r.width / 2, 20), y = r.top + r.height / 2;
	const hit = document.elementFromPoint(x, y);
	if (!hit || !e.contains(hit) && !(hit.contains(e) && hit.matches("label"))) return [];
	window.hit = "nothing";
	document.addEventListener("click", ({target}) => {
		const on = target.closest(selector);
		if (on && fits(on) || target.closest("label")?.contains(e)) window.hit = "it";
		else if (!target.contains(e)) window.hit = target.outerHTML; // else the page moved between press and release
	}, {capture: true, once: true});
	return [x, y];
})`

// click clicks on the first element that matches a selector and contains a text, when a user can
// reach it. If the page moves at that moment and the click misses, it clicks again.
func (b *tab) click(selector, text string, with ...chromedp.MouseOption) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	aimed := chromedp.Evaluate[[]float64](aim + "(" + quote(selector) + "," + quote(text) + ")")
	for {
		at, err := chromedp.Run(ctx, aimed)
		if err == nil && len(at) == 2 {
			b.do(chromedp.MouseClickXY(at[0], at[1], with...))
			hit, err := chromedp.Run(ctx, chromedp.Evaluate[string](`window.hit ?? "it"`)) // not set in the next page
			switch {
			case err != nil, hit == "it", b.noScript:
				return
			case hit != "nothing":
				b.t.Fatalf("the click for %s %q was on %s", selector, text, hit)
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			b.t.Fatalf("nothing to click on at %s %q: %v\nthe page says: %s", selector, text, err, b.text())
		}
	}
}

// withShift holds the shift key.
func withShift() chromedp.MouseOption { return chromedp.ButtonModifiers(kb.ModifierShift) }

// write replaces the text of a field.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.click(selector, "")
	b.until(`document.activeElement.matches(` + quote(selector) + `)`)
	eval[bool](b, `(document.activeElement.select(), true)`)
	if text == "" {
		b.keys(kb.Delete)
		return
	}
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// keys presses keys in sequence, after the scripts of the page have started.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.until(`document.readyState === "complete"`)
	b.do(chromedp.KeyEvent(keys))
}

// says waits until the page contains texts.
func (b *tab) says(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until(`document.getElementById("main").innerText.includes(` + quote(text) + `)`)
	}
}

// asked waits for a confirmation dialog.
func (b *tab) asked(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until(`document.getElementById("ask").open && document.getElementById("ask").innerText.includes(` + quote(text) + `)`)
	}
}

// text returns the text of the page.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, timeout/4)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.title + "\n" + document.body.innerText`))
	return text
}

// quote returns a JavaScript string literal.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot fail: a string
	}
	return strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(string(text))
}

// phone is the size of a phone.
var phone = chromedp.EmulateViewport(390, 844)

// narrow fails if the page or one of its tables is wider than a phone, and reports the wide
// elements. Charts are redrawn for the width.
func (b *tab) narrow() {
	b.t.Helper()
	b.until(`[...document.querySelectorAll(".plot > .uplot")].every((e) => e.offsetWidth <= e.parentElement.clientWidth)`)
	if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 390 {
		b.t.Errorf("the page is %d wide on a phone of 390: %v", wide, eval[[]string](b, `[...document.querySelectorAll("body *")]
			.filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "visible").slice(-5)
			.map((e) => e.outerHTML.slice(0, 150) + " " + e.scrollWidth + " of " + e.clientWidth)`))
	}
	for _, table := range eval[[]string](b, `[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth)
		.map((e) => e.ariaLabel + " " + e.scrollWidth + " of " + e.clientWidth)`) {
		b.t.Errorf("a table moves sideways on a phone: %s", table)
	}
}
