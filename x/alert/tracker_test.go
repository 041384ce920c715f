package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/health"
)

// Each step is a time, the causes at that time (the severity n, w or t, and an ID; "~" before it:
// muted; "!" before it: a part that could not be read), and the expected alerts.
func TestTracker(t *testing.T) {
	t.Parallel()
	type step struct{ at, causes, want string }
	for name, steps := range map[string][]step{
		"once":              {{"0s", "w:a", ""}, {"30s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "w:a", ""}, {"3h", "w:a", ""}},
		"two":               {{"0s", "w:a", ""}, {"30s", "w:a t:b", ""}, {"1m", "w:a t:b", "began a"}, {"90s", "w:a t:b", "began b"}},
		"short":             {{"0s", "w:a", ""}, {"50s", "", ""}, {"61s", "", ""}, {"2m", "w:a", ""}, {"3m", "w:a", "began a"}},
		"too mild":          {{"0s", "n:a", ""}, {"10m", "n:a", ""}},
		"worse":             {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "t:a", "worse a"}, {"3m", "w:a", ""}, {"4m", "t:a", ""}},
		"worse at first":    {{"0s", "w:a", ""}, {"30s", "t:a", ""}, {"1m", "t:a", "began a"}},
		"reminders":         {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"4h", "w:a", ""}, {"4h1m", "w:a", "reminder a"}, {"4h2m", "w:a", ""}, {"9h", "w:a", "reminder a"}},
		"worse delays":      {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"3h", "t:a", "worse a"}, {"5h", "t:a", ""}, {"7h", "t:a", "reminder a"}},
		"resolved":          {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"5m", "", ""}, {"6m", "", "resolved a"}, {"7m", "", ""}, {"3h", "", ""}},
		"milder":            {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "n:a", ""}, {"6m", "n:a", "resolved a"}},
		"fast flapping":     {{"0s", "w:a", ""}, {"20s", "", ""}, {"40s", "w:a", ""}, {"60s", "w:a", "began a"}, {"2m", "", ""}, {"4m", "w:a", ""}, {"6m", "", ""}, {"8m", "w:a", ""}, {"12m", "", ""}, {"13m", "", "resolved a"}},
		"slow flapping":     {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"6m", "", "resolved a"}, {"7m", "w:a", ""}, {"8m", "w:a", "began a"}, {"14m", "", ""}, {"17m", "w:a", ""}, {"27m", "", "resolved a"}, {"30m", "w:a", ""}, {"31m", "w:a", "began a"}, {"50m", "", ""}, {"51m", "", "resolved a"}},
		"again later":       {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"6m", "", "resolved a"}, {"67m", "", ""}, {"70m", "w:a", ""}, {"71m", "w:a", "began a"}, {"76m", "", "resolved a"}},
		"muted":             {{"0s", "~w:a", ""}, {"1h", "~w:a", ""}},
		"muted later":       {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "~w:a", ""}, {"9h", "~w:a", ""}, {"9h1m", "w:a", "reminder a"}},
		"gone while muted":  {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "~w:a", ""}, {"30m", "~w:a", ""}, {"31m", "", ""}, {"35m", "", "resolved a"}},
		"unmuted and worse": {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "~t:a", ""}, {"30m", "t:a", "worse a"}},
		"unreadable":        {{"0s", "w:a", ""}, {"1m", "w:a", "began a"}, {"2m", "t:redis !servers", ""}, {"30m", "t:redis !servers", "began redis"}, {"31m", "w:a", ""}, {"36m", "", "resolved a, resolved redis"}},
		"never readable":    {{"0s", "w:a !redis", ""}, {"1m", "w:a !redis", "began a"}, {"6m", "!redis", "resolved a"}},
	} {
		start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		tr := newTracker(Config{Severity: health.Warning, After: time.Minute, Quiet: 5 * time.Minute, Reminder: 4 * time.Hour})
		for _, s := range steps {
			after, err := time.ParseDuration(s.at)
			if err != nil {
				t.Fatal(err)
			}
			r := &health.Report{At: start.Add(after)}
			for word := range strings.FieldsSeq(s.causes) {
				if part, ok := strings.CutPrefix(word, "!"); ok {
					r.Problems = append(r.Problems, part+": connection refused")
					continue
				}
				muted := strings.HasPrefix(word, "~")
				severity, id, _ := strings.Cut(strings.TrimPrefix(word, "~"), ":")
				c := health.Cause{ID: id, Severity: map[string]health.Severity{"n": health.Notice, "w": health.Warning, "t": health.Trouble}[severity], Title: "title"}
				if muted {
					r.Muted = append(r.Muted, c)
				} else {
					r.Causes = append(r.Causes, c)
				}
			}
			var got []string
			for _, a := range tr.observe(r) {
				got = append(got, fmt.Sprintf("%s %s", a.Event, a.ID))
			}
			if strings.Join(got, ", ") != s.want {
				t.Errorf("%s, at %s with %q: %q, want %q", name, s.at, s.causes, got, s.want)
			}
		}
	}
}

// States of causes that are gone are removed.
func TestTrackerForgets(t *testing.T) {
	t.Parallel()
	tr := newTracker(Config{After: time.Minute, Quiet: time.Minute, Reminder: -1})
	at := time.Now()
	for n := range 1000 {
		tr.observe(&health.Report{At: at.Add(time.Duration(n) * 10 * time.Minute), Causes: []health.Cause{{ID: fmt.Sprint(n)}, {ID: "always"}}})
	}
	if n := len(tr.states); n > 10 {
		t.Errorf("%d states", n)
	}
}
