package ui

import (
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

// parse reads the templates. Each file other than the layout and the parts is a page, which defines
// "main". Times are formatted by when.
func (u *UI) parse(when func(time.Time) template.HTML) templates {
	shared := template.Must(template.New("").Funcs(u.funcs()).Funcs(template.FuncMap{"when": when}).ParseFS(templateFiles, "templates/_*.html"))
	files, err := fs.Glob(templateFiles, "templates/[a-z]*.html")
	if err != nil {
		panic(err) // the templates are embedded
	}
	pages := templates{}
	for _, file := range files {
		page := template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, file))
		pages[strings.TrimSuffix(path.Base(file), ".html")] = page
	}
	return pages
}

// funcs returns the functions for templates.
func (u *UI) funcs() template.FuncMap {
	return template.FuncMap{
		"link":   u.link,
		"static": func(name string) string { return u.Root + "/static/" + assets().path(name) },
		"icon":   icon,

		"number":  func(n any) string { return show.Number(integer(n)) },
		"short":   func(n any) string { return show.Short(float(n)) },
		"rate":    show.PerSecond,
		"percent": func(part, whole any) string { return show.Percent(float(part), float(whole)) },
		"bytes":   func(n any) string { return show.Bytes(integer(n)) },
		"plural":  func(n any, noun ...string) string { return show.Plural(integer(n), noun[0], noun[1:]...) },
		"span":    show.Duration,
		"lasting": u.lasting,
		"day":     show.Day,

		"visible":    show.Visible,
		"cause":      show.Cause,
		"healthLink": u.healthLink,
		"actionWord": actionWord,
		"causeChart": u.causeChart,
		"clip":       show.Clip,
		"exact":      func(t time.Time) string { return show.Time(t.UTC()) + " UTC" },
		"pick":       pick,
		"keep":       keep,
		"term":       term,
		"stateHint":  func(state string) string { return stateHints[state] },

		"stateBar":  stateBar,
		"spark":     spark,
		"dayBar":    dayBar,
		"hourBars":  hourBars,
		"meter":     meter,
		"shareBar":  shareBar,
		"nodeState": nodeState,
		"took":      took,

		"args": args,
		"list": func(items ...any) []any { return items },
		"add":  func(a, b int) int { return a + b },
	}
}

// when returns a time relative to now, with the exact time as its tooltip. A script keeps it
// current.
func (u *UI) when(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	t = t.UTC()
	// The texts consist of digits, letters and spaces only.
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `" title="` + show.Time(t) + ` UTC">` + show.From(u.now(), t) + `</time>`)
}

// lasting returns the time since a moment. A script keeps it current.
func (u *UI) lasting(since time.Time) template.HTML {
	since = since.UTC()
	return template.HTML(`<time datetime="` + since.Format(time.RFC3339) + `" data-since>` + show.Duration(max(u.now().Sub(since).Truncate(time.Second), time.Second)) + `</time>`)
}

// exactly returns an exact time in UTC, with the relative time as its tooltip. A script may convert
// it to another time zone.
func (u *UI) exactly(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `" title="` + show.From(u.now(), t) + `">` + show.Time(t) + ` UTC</time>`)
}

// args builds the argument of a template part from pairs of names and values.
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("args: %v has no value", pairs[len(pairs)-1])
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("args: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

func integer(n any) int64 {
	switch n := n.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	case float64:
		return int64(n)
	}
	panic(fmt.Sprintf("%T is not a number", n)) // a bug in a template; tests detect it
}

func float(n any) float64 {
	if f, ok := n.(float64); ok {
		return f
	}
	return float64(integer(n))
}
