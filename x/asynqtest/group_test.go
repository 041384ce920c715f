package asynqtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// joinPayloads is an aggregator: a task of type "batch" with the payloads of the group.
func joinPayloads(group string, tasks []*asynq.Task) *asynq.Task {
	var all []string
	for _, t := range tasks {
		all = append(all, string(t.Payload()))
	}
	slices.Sort(all) // tasks of the same second have no order
	return asynq.NewTask("batch", []byte(group+": "+strings.Join(all, " ")))
}

func payloads(outcomes []asynqtest.Outcome) (all []string) {
	for _, o := range outcomes {
		all = append(all, o.Type+" "+string(o.Payload))
	}
	slices.Sort(all)
	return all
}

func TestDrainLeavesGroupsWithoutAnAggregator(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "1", asynq.Group("g"))
	wantIDs(t, b.Drain(t, asynq.HandlerFunc(succeed)))
	b.AssertEnqueued(t, asynqtest.Task{State: asynq.TaskStateAggregating, Group: "g"})
}

func TestDrainAggregates(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]asynqtest.DrainOption{
		"Aggregate": asynqtest.Aggregate(asynq.GroupAggregatorFunc(joinPayloads)),
		"Configure": asynqtest.Configure(func(cfg *asynq.Config) {
			cfg.GroupGracePeriod = time.Minute
			cfg.GroupAggregator = asynq.GroupAggregatorFunc(joinPayloads)
		}),
	} {
		b := asynqtest.Run(t)
		enqueue(t, b, "a", "1", asynq.Group("g"))
		enqueue(t, b, "a", "2", asynq.Group("g"))
		enqueue(t, b, "a", "3", asynq.Group("h"))
		enqueue(t, b, "a", "4", asynq.Group("g"), asynq.Queue("other"))
		enqueue(t, b, "single", "")
		outcomes := b.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			if string(task.Payload()) == "h: 3" {
				enqueue(t, b, "a", "5", asynq.Group("late"))
			}
			return nil
		}), option)
		want := []string{"batch g: 1 2", "batch g: 4", "batch h: 3", "batch late: 5", "single "}
		if got := payloads(outcomes); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if left := b.Enqueued(); len(left) != 0 {
			t.Errorf("%s: left: %d tasks", name, len(left))
		}
	}
}

func TestAggregatorRunsInTheGoroutineOfDrainAndMayEndTheTest(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "1", asynq.Group("g"))
	wantFailure(t, func(t testing.TB) {
		own := goroutine()
		b.Drain(t, asynq.HandlerFunc(succeed), asynqtest.Aggregate(asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task {
			t.Fatal("planned, in Drain's goroutine: ", goroutine() == own)
			return nil
		})))
	}, "planned, in Drain's goroutine: true")
	b.AssertCount(t, 0, asynqtest.Task{Type: "batch"})
}

func ExampleAggregate() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)
	for _, note := range []string{"likes", "shares"} {
		if _, err := b.Client().Enqueue(asynq.NewTask("notify", []byte(note)), asynq.Group("ada")); err != nil {
			t.Fatal(err)
		}
	}

	digest := asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
		return asynq.NewTask("digest", fmt.Appendf(nil, "%d notes for %s", len(tasks), group))
	})
	b.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("%s: %s\n", task.Type(), task.Payload())
		return nil
	}), asynqtest.Aggregate(digest))
	// Output:
	// digest: 2 notes for ada
}
