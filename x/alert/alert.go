package alert

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/health"
)

// Event is why an alert is sent.
type Event string

// The events.
const (
	Began    Event = "began"    // the cause has lasted for Config.After
	Worse    Event = "worse"    // the severity has risen
	Reminder Event = "reminder" // the cause still lasts
	Resolved Event = "resolved" // the cause is gone
)

// Alert is a message about a cause. Its JSON is the body of webhooks.
type Alert struct {
	Event    Event           `json:"event"`
	At       time.Time       `json:"at"`
	Source   string          `json:"source,omitempty"` // Config.Source
	Link     string          `json:"link,omitempty"`   // Config.Link
	ID       string          `json:"id"`               // of the cause: the same for all of its alerts
	Kind     string          `json:"kind"`
	Severity health.Severity `json:"severity"`
	Title    string          `json:"title"`
	Hint     string          `json:"hint"`
	Queues   []string        `json:"queues"`
	Since    time.Time       `json:"since"` // start of the cause, or of its first observation
	Evidence []string        `json:"evidence"`
}

// Subject returns the alert in one line.
func (a *Alert) Subject() string {
	word := a.Severity.String()
	switch a.Event {
	case Began:
	case Worse:
		word = "now " + word
	case Reminder:
		word = "still " + word
	case Resolved:
		word = "resolved"
	}
	text := "[" + word + "] " + a.Title
	if a.Source != "" {
		text = a.Source + ": " + text
	}
	return text
}

// Text returns the alert as plain text of several lines.
func (a *Alert) Text() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.Subject())
	if a.Event == Resolved {
		fmt.Fprintf(&b, "It lasted from %s to %s.\n", stamp(a.Since), stamp(a.At))
	} else {
		fmt.Fprintf(&b, "Since %s.\n", stamp(a.Since))
		for _, line := range a.Evidence {
			fmt.Fprintln(&b, "- "+line)
		}
		if a.Hint != "" {
			fmt.Fprintln(&b, a.Hint)
		}
	}
	if a.Link != "" {
		fmt.Fprintln(&b, a.Link)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
