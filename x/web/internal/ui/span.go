package ui

import (
	"net/http"
	"time"
)

// spanChoice is the time that charts show, and what may be chosen instead. It is a part of the URL.
type spanChoice struct {
	Text    string // as in the URL; empty: the shortest
	Length  time.Duration
	Choices []spanLink
}

type spanLink struct {
	Name, Title, URL string
	Current          bool
}

var spans = []struct {
	text, name, title string
	length            time.Duration
}{
	{"", "10 min", "The last 10 minutes", sparkSpan},
	{"1h", "1 h", "The last hour", time.Hour},
	{"6h", "6 h", "The last 6 hours", 6 * time.Hour},
	{"72h", "3 d", "The last 3 days", 72 * time.Hour},
}

// spanOf is the span that a page is asked for.
func (u *UI) spanOf(r *http.Request) spanChoice {
	query := r.URL.Query()
	asked := query.Get("span")
	choice := spanChoice{Length: sparkSpan}
	for _, s := range spans {
		if s.text == asked {
			choice.Text, choice.Length = s.text, s.length
		}
	}
	for _, s := range spans {
		query.Del("span")
		if s.text != "" {
			query.Set("span", s.text)
		}
		target := u.Root + r.URL.EscapedPath()
		if len(query) > 0 {
			target += "?" + query.Encode()
		}
		choice.Choices = append(choice.Choices, spanLink{Name: s.name, Title: s.title, URL: target, Current: s.text == choice.Text})
	}
	return choice
}
