package asynqtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// AssertEnqueued ends the test unless an enqueued task matches want. It returns the task, or the
// first one in the order of Enqueued. The failure shows the most similar tasks and their
// differences.
func (b *Broker) AssertEnqueued(t testing.TB, want Task) *asynq.TaskInfo {
	t.Helper()
	matching, others := b.split(t, want)
	if len(matching) == 0 {
		t.Fatal(b.explain(want, others))
		return nil // if Fatal returns, as in tests of this package
	}
	return matching[0]
}

// AssertNotEnqueued ends the test if an enqueued task matches notWanted. The zero Task matches all
// tasks.
func (b *Broker) AssertNotEnqueued(t testing.TB, notWanted Task) {
	t.Helper()
	matching, _ := b.split(t, notWanted)
	if len(matching) == 0 {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "asynqtest: want no %v, but there is:", notWanted)
	for i, info := range matching {
		if i == mostShown {
			fmt.Fprintf(&text, "\n  … and %d more", len(matching)-i)
			break
		}
		fmt.Fprintf(&text, "\n  %s", headline(info, b.Now()))
	}
	t.Fatal(text.String())
}

// AssertCount ends the test unless exactly n enqueued tasks match want. It returns them.
func (b *Broker) AssertCount(t testing.TB, n int, want Task) []*asynq.TaskInfo {
	t.Helper()
	matching, others := b.split(t, want)
	if len(matching) == n {
		return matching
	}
	var text strings.Builder
	fmt.Fprintf(&text, "asynqtest: want %d tasks, got %d: %v", n, len(matching), want)
	for _, info := range matching[:min(len(matching), mostShown)] {
		fmt.Fprintf(&text, "\n  %s", headline(info, b.Now()))
	}
	if len(matching) < n && len(others) > 0 {
		fmt.Fprintf(&text, "\n%s", b.nearest(want, others))
	}
	t.Fatal(text.String())
	return matching
}

// Matching returns the enqueued tasks that match want.
func (b *Broker) Matching(want Task) []*asynq.TaskInfo {
	b.t.Helper()
	matching, _ := b.split(b.t, want)
	return matching
}

// split separates the tasks that match want from the others.
func (b *Broker) split(t testing.TB, want Task) (matching, others []*asynq.TaskInfo) {
	t.Helper()
	if err := want.check(); err != nil {
		t.Fatalf("asynqtest: %v", err)
	}
	tasks, err := b.tasks()
	if err != nil {
		t.Fatalf("asynqtest: list tasks: %v", err)
	}
	now := b.Now()
	for _, info := range tasks {
		if len(want.differences(info, now)) == 0 {
			matching = append(matching, info)
		} else {
			others = append(others, info)
		}
	}
	return matching, others
}

// mostShown is the number of tasks in a failure.
const mostShown = 3

func (b *Broker) explain(want Task, others []*asynq.TaskInfo) string {
	text := fmt.Sprintf("asynqtest: no such task is enqueued: %v", want)
	if len(others) == 0 {
		return text + "\nThere are no tasks. A completed task is deleted unless it has a Retention."
	}
	return text + "\n" + b.nearest(want, others)
}

// nearest formats the tasks with the fewest differences from want.
func (b *Broker) nearest(want Task, others []*asynq.TaskInfo) string {
	type candidate struct {
		info *asynq.TaskInfo
		all  differences
	}
	now := b.Now()
	candidates := make([]candidate, len(others))
	for i, info := range others {
		candidates[i] = candidate{info, want.differences(info, now)}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		otherType := func(c candidate) int {
			if want.Type != "" && c.info.Type != want.Type {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(otherType(a), otherType(b)), cmp.Compare(len(a.all), len(b.all)))
	})
	var text strings.Builder
	if len(others) > mostShown {
		fmt.Fprintf(&text, "The most similar of the %d others:", len(others))
	} else {
		text.WriteString("The tasks:")
	}
	for _, c := range candidates[:min(len(candidates), mostShown)] {
		fmt.Fprintf(&text, "\n  %s", headline(c.info, now))
		for _, d := range c.all {
			fmt.Fprintf(&text, "\n    %s", strings.ReplaceAll(d, "\n", "\n      "))
		}
	}
	return text.String()
}

// headline describes a task in one line.
func headline(info *asynq.TaskInfo, now time.Time) string {
	line := fmt.Sprintf("%s %s in queue %q: ", info.Type, info.ID, info.Queue)
	if info.IsHeld {
		line += "held by its partition"
	} else {
		line += info.State.String()
	}
	switch {
	case info.IsHeld:
	case info.State == asynq.TaskStateScheduled, info.State == asynq.TaskStateRetry:
		line += fmt.Sprintf(", due in %v", info.NextProcessAt.Sub(now))
	case info.State == asynq.TaskStateAggregating:
		line += fmt.Sprintf(" in group %q", info.Group)
	}
	if info.LastErr != "" {
		line += fmt.Sprintf(", last error: %s", info.LastErr)
	}
	return line
}
