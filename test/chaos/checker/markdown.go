package checker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String writes the report as Markdown: the conclusion, the numbers, the violations with what shows
// them.
func (r *Report) String() string {
	var b strings.Builder
	total := 0
	for _, v := range r.Violations {
		total += v.Total
	}
	switch total {
	case 0:
		b.WriteString("**No violations.**\n")
	case 1:
		b.WriteString("**1 violation.**\n")
	default:
		fmt.Fprintf(&b, "**%d violations.**\n", total)
	}
	fmt.Fprintf(&b, "\n%d tasks were offered: %d accepted, %d refused, %d without a clear answer. %d more were aggregated of them. %d runs: %d after a failure, %d repeated.\n",
		r.Offered, r.Accepted, r.Refused, r.Unknown, r.Aggregated, r.Runs, r.Retries, sum(r.Repeats))
	fmt.Fprintf(&b, "\n| completed | archived | gone | trimmed | waiting | never there | losses explained | leases lost |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n| %d | %d | %d | %d | %d | %d | %d | %d |\n",
		r.Completed, r.Archived, r.Gone, r.Trimmed, r.Waiting, r.Absent, sum(r.Losses), r.LeasesLost)
	r.writeFaults(&b)
	r.writeQueues(&b)
	r.writeViolations(&b)
	if len(r.Oddities) > 0 {
		b.WriteString("\nThe history has events that do not fit together:\n\n")
		for _, what := range slices.Sorted(maps.Keys(r.Oddities)) {
			fmt.Fprintf(&b, "- %s: %d\n", cell(what), r.Oddities[what])
		}
	}
	return b.String()
}

// writeFaults writes what faults explain, and how long tasks waited after their process had died.
func (r *Report) writeFaults(b *strings.Builder) {
	names := make(map[string]bool)
	recoveries := make(map[string]Recovery)
	for name := range r.Losses {
		names[name] = true
	}
	for name := range r.Repeats {
		names[name] = true
	}
	for _, rec := range r.Recoveries {
		names[rec.Name], recoveries[rec.Name] = true, rec
	}
	if len(names) == 0 {
		return
	}
	b.WriteString("\n| explained by | losses | repeated runs | tasks of a dead process | next run after, p50 | max |\n|---|--:|--:|--:|--:|--:|\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p50, longest := "", ""
		rec := recoveries[name]
		if rec.N > 0 {
			p50, longest = seconds(int64(rec.P50)), seconds(int64(rec.Max))
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %s | %s |\n", cell(name), r.Losses[name], r.Repeats[name], rec.N, p50, longest)
	}
}

// writeQueues writes the statistics.
func (r *Report) writeQueues(b *strings.Builder) {
	if len(r.Queues) == 0 {
		return
	}
	b.WriteString("\n| queue | processed | by the history | failures | by the history |\n|---|--:|--:|--:|--:|\n")
	for _, q := range r.Queues {
		fmt.Fprintf(b, "| %s | %d | %s | %d | %s |\n", cell(q.Queue), q.Processed, interval(q.MinProcessed, q.MaxProcessed), q.Failures, interval(q.MinFailures, q.MaxFailures))
	}
	if processed, failures := r.Width(); processed+failures > 0 {
		fmt.Fprintf(b, "\nThe history leaves %d processed and %d failures open.\n", processed, failures)
	} else {
		b.WriteString("\nThe history leaves none of these numbers open.\n")
	}
}

// writeViolations writes each kind with its examples.
func (r *Report) writeViolations(b *strings.Builder) {
	for _, kind := range slices.Sorted(maps.Keys(r.Violations)) {
		v := r.Violations[kind]
		fmt.Fprintf(b, "\n## %s: %d\n", kind, v.Total)
		for _, example := range v.Examples {
			subject := "queue " + example.Queue
			if example.Task != "" {
				subject = "task " + example.Task + ", " + subject
			}
			fmt.Fprintf(b, "\n- %s: %s\n", subject, example.Because)
			for _, e := range example.Events {
				line, err := json.Marshal(e)
				if err != nil {
					line = []byte(err.Error())
				}
				fmt.Fprintf(b, "    - `%s`\n", line)
			}
		}
		if more := v.Total - len(v.Examples); more > 0 {
			fmt.Fprintf(b, "\n%d more.\n", more)
		}
	}
}

// interval writes what a number must be.
func interval(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// sum adds up the numbers of all names.
func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// cell has a text stay within its cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}
