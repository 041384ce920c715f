package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/x/chaos/checker"
	"github.com/asynq-go/asynq/x/chaos/history"
)

// outcome is what a run came to.
type outcome struct {
	options *options
	report  *checker.Report
	faults  map[string]int           // how often each happened
	full    map[string]time.Duration // by fault of Redis: from its end to the full rate again, the median
}

func judge(o *options, events []history.Event) *outcome {
	out := &outcome{options: o, report: checker.Check(events, o.rules()), faults: make(map[string]int)}
	for i := range events {
		if events[i].Kind == history.Fault {
			out.faults[events[i].Name]++
		}
	}
	out.full = backToFull(events)
	return out
}

// The rate is full again when in the last so long as many tasks have finished as it takes at this share of the rate before.
const (
	window    = 100 * time.Millisecond
	before    = 5 * time.Second
	fullShare = 0.8
)

// backToFull returns, for each kind of fault that silences all processes, how long after it tasks finished at the rate before it: the
// median. A fault that begins before the rate is full again ends the look at the one before it.
func backToFull(events []history.Event) map[string]time.Duration {
	var finished []int64
	var faults []history.Event
	for _, e := range events {
		switch {
		case e.Kind == history.Finished && e.Err == "":
			finished = append(finished, e.At)
		case e.Kind == history.Fault && slices.Contains(e.Targets, "*"):
			faults = append(faults, e)
		}
	}
	slices.Sort(finished)
	count := func(from, to int64) int {
		i, _ := slices.BinarySearch(finished, from)
		j, _ := slices.BinarySearch(finished, to)
		return j - i
	}
	took := make(map[string][]time.Duration)
	for i, f := range faults {
		need := int(float64(count(f.At-int64(before), f.At)) / before.Seconds() * window.Seconds() * fullShare)
		end := int64(1<<63 - 1)
		if i+1 < len(faults) {
			end = faults[i+1].At
		}
		if len(finished) > 0 {
			end = min(end, finished[len(finished)-1])
		}
		for at := f.Until; need > 0 && at <= end; at += int64(10 * time.Millisecond) {
			if count(at-int64(window), at) >= need {
				took[f.Name] = append(took[f.Name], time.Duration(at-f.Until))
				break
			}
		}
	}
	medians := make(map[string]time.Duration, len(took))
	for name, all := range took {
		slices.Sort(all)
		medians[name] = all[len(all)/2]
	}
	return medians
}

// rates are how many tasks of each queue succeeded in a second, between two moments.
func rates(events []history.Event, from, to int64) map[string]float64 {
	rates := make(map[string]float64)
	for _, e := range events {
		if e.Kind == history.Finished && e.Err == "" && e.At >= from && e.At < to {
			rates[e.Queue] += float64(time.Second) / float64(to-from)
		}
	}
	return rates
}

// String is the outcome as Markdown.
func (out *outcome) String() string {
	var b strings.Builder
	o := out.options
	fmt.Fprintf(&b, "## %s, %s, appendfsync %s\n\nSeed %d, %d tasks in %v, a lease of %v", o.Library, o.Site, o.Fsync, o.Seed, o.Tasks, o.Length, o.Lease)
	if o.MinReplicas > 0 {
		fmt.Fprintf(&b, ", min-replicas-to-write %d", o.MinReplicas)
	}
	fmt.Fprintf(&b, ".\n\n%s\n", out.report)
	names := make([]string, 0, len(out.faults))
	for name := range out.faults {
		names = append(names, name)
	}
	slices.Sort(names)
	b.WriteString("| fault | happened | runs repeated | full rate after |\n|---|---|---|---|\n")
	for _, name := range names {
		after := ""
		if d, ok := out.full[name]; ok {
			after = d.Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", name, out.faults[name], out.report.Repeats[name], after)
	}
	return b.String()
}
