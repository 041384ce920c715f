package ui

import (
	"net/http"
	"time"
)

// spanChoice is the time range of charts, with its alternatives. It is a parameter of the URL.
type spanChoice struct {
	Text    string // the parameter of the URL; empty: the shortest
	Length  time.Duration
	Choices []spanLink
	Note    string // what the charts do not show
}

type spanLink struct {
	Name, Title, URL string
	Current          bool
}

// span is a time range of charts.
type span struct {
	text, name, title string
	length            time.Duration
}

// seenSpans are those of what the poller has seen, recordedSpans those of what servers record.
var (
	seenSpans = []span{
		{"", "10 min", "Last 10 minutes", sparkSpan},
		{"1h", "1 h", "Last hour", time.Hour},
		{"6h", "6 h", "Last 6 hours", 6 * time.Hour},
		{"72h", "3 d", "Last 3 days", 72 * time.Hour},
	}
	recordedSpans = append(seenSpans[:3:3],
		span{"48h", "48 h", "Last 48 hours", 48 * time.Hour},
		span{"720h", "30 d", "Last 30 days", 30 * 24 * time.Hour})
)

// spanOf returns the time range that a request selects.
func (u *UI) spanOf(r *http.Request, spans []span) spanChoice {
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
