package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// answer is a response of the pages.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	doc    *html.Node
	body   string
}

// all returns the elements of a kind, with a class (".tag"), or with an ID ("#now"), in the order
// of the page, that have all attributes, which are pairs of names and values.
func (a *answer) all(what string, attrs ...string) []*html.Node { return within(a.doc, what, attrs...) }

func within(top *html.Node, what string, attrs ...string) []*html.Node {
	var found []*html.Node
	for n := range top.Descendants() {
		if n.Type == html.ElementNode && is(n, what) && has(n, attrs) {
			found = append(found, n)
		}
	}
	return found
}

func is(n *html.Node, what string) bool {
	switch what[0] {
	case '.':
		return slices.Contains(strings.Fields(attr(n, "class")), what[1:])
	case '#':
		return attr(n, "id") == what[1:]
	}
	return n.Data == what
}

func has(n *html.Node, attrs []string) bool {
	for i := 0; i < len(attrs); i += 2 {
		if attr(n, attrs[i]) != attrs[i+1] {
			return false
		}
	}
	return true
}

func attr(n *html.Node, name string) string {
	value, _ := attribute(n, name)
	return value
}

func attribute(n *html.Node, name string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// one returns the only matching element.
func (a *answer) one(what string, attrs ...string) *html.Node {
	a.t.Helper()
	found := a.all(what, attrs...)
	if len(found) != 1 {
		a.t.Fatalf("%d elements %s %q, want one: %s", len(found), what, attrs, a.text("main"))
	}
	return found[0]
}

// text returns the text of the elements, with single spaces; empty if there are none.
func (a *answer) text(what string, attrs ...string) string {
	var texts []string
	for _, n := range a.all(what, attrs...) {
		texts = append(texts, textOf(n))
	}
	return strings.Join(texts, " ")
}

func textOf(top *html.Node) string {
	var b strings.Builder
	for n := range top.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// inner returns the exact text of an element.
func inner(top *html.Node) string {
	var b strings.Builder
	for n := range top.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

// rows returns the texts of the table rows, without headings.
func (a *answer) rows() []string {
	var rows []string
	for _, n := range a.all("tr") {
		if n.Parent.Data == "tbody" {
			rows = append(rows, textOf(n))
		}
	}
	return rows
}

// row returns the text of the table row with a heading or cell that has this text.
func (a *answer) row(has string) string {
	a.t.Helper()
	for _, text := range a.rows() {
		if strings.Contains(text, has) {
			return text
		}
	}
	a.t.Fatalf("no row has %q: %s", has, a.text("main"))
	return ""
}

// ids returns the tasks of a page that can be selected.
func (a *answer) ids() []string {
	var ids []string
	for _, box := range a.all("input", "name", "id", "type", "checkbox") {
		ids = append(ids, attr(box, "value"))
	}
	return ids
}

// form returns the form with an action.
func (a *answer) form(action string) *html.Node {
	a.t.Helper()
	forms := a.all("form", "action", root+action, "method", "post")
	if len(forms) == 0 {
		a.t.Fatalf("there is no form for %s: %s", action, a.text("main"))
	}
	return forms[0]
}

// does reports whether the page has a button for an action.
func (a *answer) does(what string) bool { return len(a.all("button", "name", "do", "value", what)) > 0 }

// links returns the URLs of links to a page.
func (a *answer) links(path string) []*url.URL {
	var found []*url.URL
	for _, n := range a.all("a") {
		if u, err := url.Parse(attr(n, "href")); err == nil && u.Path == root+path {
			found = append(found, u)
		}
	}
	return found
}

// leads reports whether the page has a link to a path with exactly these parameters.
func (a *answer) leads(path string, pairs ...string) bool {
	want := values(pairs).Encode()
	return slices.ContainsFunc(a.links(path), func(u *url.URL) bool { return u.Query().Encode() == want })
}

// search returns the filter of the first link to a search.
func (a *answer) search() string {
	for _, u := range a.links("/search") {
		if f := u.Query().Get("filter"); f != "" {
			return f
		}
	}
	return ""
}

// sound checks the invariants of all pages: no name has become markup, and nothing violates the
// content security policy.
func (a *answer) sound() {
	a.t.Helper()
	ids := make(map[string]bool)
	for n := range a.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "style" || n.Data == "b" && attr(n, "onclick") != "" || n.Data == "script" && n.FirstChild != nil ||
			(n.Data == "script" || n.Data == "img") && !strings.HasPrefix(attr(n, "src"), root+"/static/") {
			a.t.Errorf("there is an element %s %v: %s", n.Data, n.Attr, textOf(n))
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" || strings.HasPrefix(at.Key, "hx-on") {
				a.t.Errorf("<%s> has %s=%q, which the policy forbids", n.Data, at.Key, at.Val)
			}
			if (at.Key == "href" || at.Key == "action" || at.Key == "src") && !strings.HasPrefix(at.Val, root+"/") && !strings.HasPrefix(at.Val, "#") {
				a.t.Errorf("<%s> leads out: %s", n.Data, at.Val)
			}
		}
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				a.t.Errorf("two elements have the ID %q", id)
			}
			ids[id] = true
		}
	}
}

// hostile are names that look like markup, a path, or a new line. Queues, tasks, types and groups
// may have them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `it's "quoted"`, "two\nlines\ttab", "..", "../../etc", "a/b", "a%2Fb", "a?b=c&d#e",
	"\u202egpj.exe", "{{.Title}}", `javascript:alert(1)`, strings.Repeat("x", 1024), "naïve 名前 👩‍🔬", `\`, "a+b c",
}

// hostileNames are more of them, including some that a message cannot have, but Redis and a URL
// can.
var hostileNames = append(slices.Clip(hostile), `'"`, "a\nb\r\nc", "/", "a/../b", "\u200b", "\xff\xfe", strings.Repeat("long ", 200), " ")
