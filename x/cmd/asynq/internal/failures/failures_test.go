package failures_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
)

func failed(queue, typename, text string, state asynq.TaskState, at int64) *asynq.TaskInfo {
	return &asynq.TaskInfo{ID: fmt.Sprint(at), Queue: queue, Type: typename, LastErr: text, State: state, LastFailedAt: time.Unix(at, 0)}
}

func TestTally(t *testing.T) {
	t.Parallel()
	tally := failures.NewTally(2)
	for _, task := range []*asynq.TaskInfo{
		failed("a", "mail", "user 1 is gone", asynq.TaskStateRetry, 30),
		failed("a", "mail", "user 2 is gone", asynq.TaskStateArchived, 10),
		failed("b", "image", "user 2 is gone", asynq.TaskStateRetry, 20),
		failed("b", "mail", "user 7 is gone", asynq.TaskStateRetry, 40),
		failed("b", "mail", "no such order", asynq.TaskStateArchived, 50),
		failed("b", "mail", "", asynq.TaskStateArchived, 50),
	} {
		tally.Add(task)
	}
	kinds := tally.Kinds()
	if len(kinds) != 2 || tally.Tasks != 6 || kinds[0].Text != "user # is gone" || kinds[1].Text != "no such order" {
		t.Fatalf("%d kinds, first %+v", len(kinds), kinds[0])
	}
	k := kinds[0]
	if k.Count != 4 || k.Archived != 1 || k.Retry() != 3 || k.First.Unix() != 10 || k.Last.Unix() != 40 {
		t.Errorf("%+v", k)
	}
	if len(k.Samples) != 2 || k.Example().ID != "40" || k.Samples[1].ID != "30" {
		t.Errorf("samples %v", k.Samples)
	}
	if got, want := failures.Top(k.Types), []failures.Counted{{"mail", 3}, {"image", 1}}; !slices.Equal(got, want) {
		t.Errorf("types %v, want %v", got, want)
	}
	if got, want := failures.Top(k.Queues), []failures.Counted{{"a", 2}, {"b", 2}}; !slices.Equal(got, want) {
		t.Errorf("queues %v, want %v", got, want)
	}
	match := failures.Match(k.ID)
	if !match(failed("c", "x", "user 99 is gone", asynq.TaskStateRetry, 1)) || match(failed("c", "x", "gone", asynq.TaskStateRetry, 1)) || match(&asynq.TaskInfo{}) {
		t.Error("Match selects other tasks than those of the kind")
	}
}

// The web UI has the same IDs: x/web/internal/survey checks it as well.
func TestID(t *testing.T) {
	t.Parallel()
	if got := failures.ID(asynq.ErrorKind("user 1 is gone")); got != "fe7b290781a6396f" {
		t.Errorf("the ID is %q", got)
	}
}

// A program may generate any number of kinds.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	tally := failures.NewTally(1)
	word := []byte("aaaa")
	for range 6000 {
		for i := range word {
			if word[i]++; word[i] <= 'z' {
				break
			}
			word[i] = 'a'
		}
		tally.Add(failed("a", "mail", "no "+string(word), asynq.TaskStateRetry, 1))
	}
	if n := len(tally.Kinds()); n != 5000 || tally.Tasks != 6000 {
		t.Errorf("%d kinds of %d tasks", n, tally.Tasks)
	}
}
