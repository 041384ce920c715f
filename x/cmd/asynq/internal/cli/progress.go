package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress shows the progress of long operations on standard error: only on a terminal, and only
// after progressAfter.
type progress struct {
	a     *app
	verb  string
	shown bool
	on    bool
	start time.Time
	last  time.Time
}

const (
	progressAfter    = 500 * time.Millisecond
	progressInterval = 100 * time.Millisecond
)

func (a *app) progress(verb string) *progress {
	f, ok := a.Err.(*os.File)
	return &progress{a: a, verb: verb, on: ok && term.IsTerminal(int(f.Fd())), start: time.Now()}
}

// at shows that n of all items are done. If all is 0, the total is unknown.
func (p *progress) at(n, all int, note string) {
	now := time.Now()
	if !p.on || now.Sub(p.start) < progressAfter || now.Sub(p.last) < progressInterval {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.a.Err, "\r\x1b[K%s", progressLine(p.verb, n, all, now.Sub(p.start), note))
}

// progressLine formats the line for n of all items, less than 80 characters wide.
func progressLine(verb string, n, all int, spent time.Duration, note string) string {
	line := fmt.Sprintf("%s %d", verb, n)
	if all > 0 {
		const width = 20
		full := min(n*width/all, width)
		line = fmt.Sprintf("%s [%s%s] %d%% of %d", verb, strings.Repeat("#", full), strings.Repeat(".", width-full), min(100, n*100/all), all)
	}
	if s := spent.Seconds(); s > 0 {
		line += fmt.Sprintf(", %.0f/s", float64(n)/s)
	}
	if note != "" {
		line += ", " + note
	}
	return line
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.a.Err, "\r\x1b[K")
	}
}
