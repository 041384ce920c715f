package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/test/chaos/checker"
	"github.com/asynq-go/asynq/test/chaos/history"
)

// result is the result of a run.
type result struct {
	options  *options
	report   *checker.Report
	faults   map[string]int           // number of faults by kind
	recovery map[string]time.Duration // by Redis fault: median time from its end to the full rate
}

// evaluate checks the history of a run.
func evaluate(o *options, events []history.Event) *result {
	out := &result{options: o, report: checker.Check(events, o.rules()), faults: make(map[string]int)}
	for i := range events {
		if events[i].Kind == history.Fault {
			out.faults[events[i].Name]++
		}
	}
	out.recovery = recoveryTimes(events)
	return out
}

// The rate is full when this share of the previous rate is reached within the window.
const (
	window    = 100 * time.Millisecond
	before    = 5 * time.Second
	fullShare = 0.8
)

// recoveryTimes returns, for each kind of fault that stops all processes, the median time from its
// end until tasks finish at the previous rate. The search ends at the next fault.
func recoveryTimes(events []history.Event) map[string]time.Duration {
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

// rates returns the events of a kind per second and queue, without errors, between two times.
func rates(events []history.Event, kind history.Kind, from, to int64) map[string]float64 {
	rates := make(map[string]float64)
	for _, e := range events {
		if e.Kind == kind && e.Err == "" && e.At >= from && e.At < to {
			rates[e.Queue] += float64(time.Second) / float64(to-from)
		}
	}
	return rates
}

// String returns the outcome as Markdown.
func (out *result) String() string {
	var b strings.Builder
	o := out.options
	fmt.Fprintf(&b, "## %s, %s, appendfsync %s\n\nSeed %d, %d tasks in %v, leases of %v", o.Library, o.Site, o.Fsync, o.Seed, o.Tasks, o.Length, o.Lease)
	if o.MinReplicas > 0 {
		fmt.Fprintf(&b, ", min-replicas-to-write %d", o.MinReplicas)
	}
	fmt.Fprintf(&b, ".\n\n%s\n", out.report)
	names := make([]string, 0, len(out.faults))
	for name := range out.faults {
		names = append(names, name)
	}
	slices.Sort(names)
	b.WriteString("| fault | count | repeated runs | full rate after |\n|---|---|---|---|\n")
	for _, name := range names {
		after := ""
		if d, ok := out.recovery[name]; ok {
			after = d.Round(10 * time.Millisecond).String()
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", name, out.faults[name], out.report.Repeats[name], after)
	}
	return b.String()
}
