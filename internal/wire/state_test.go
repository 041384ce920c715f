package wire_test

import (
	"slices"
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestStates(t *testing.T) {
	// The numbers are those of the public API, the texts those in the task hash.
	tests := []struct {
		state  wire.State
		number int
		text   string
	}{
		{wire.StateActive, 1, "active"},
		{wire.StatePending, 2, "pending"},
		{wire.StateScheduled, 3, "scheduled"},
		{wire.StateRetry, 4, "retry"},
		{wire.StateArchived, 5, "archived"},
		{wire.StateCompleted, 6, "completed"},
		{wire.StateAggregating, 7, "aggregating"},
	}
	var all []wire.State
	for _, tt := range tests {
		all = append(all, tt.state)
		if int(tt.state) != tt.number {
			t.Errorf("%v is %d, want %d", tt.state, int(tt.state), tt.number)
		}
		if got := tt.state.String(); got != tt.text {
			t.Errorf("state %d is %q, want %q", tt.number, got, tt.text)
		}
		if got, err := wire.ParseState(tt.text); err != nil || got != tt.state {
			t.Errorf("ParseState(%q) = %v, %v; want %v", tt.text, got, err, tt.state)
		}
	}
	if got := wire.States(); !slices.Equal(got, all) {
		t.Errorf("States() = %v, want %v", got, all)
	}
}

func TestParseStateRejects(t *testing.T) {
	for _, text := range []string{"", "Active", "active ", "deleted", "1", "State(0)"} {
		if got, err := wire.ParseState(text); err == nil || got != 0 {
			t.Errorf("ParseState(%q) = %v, %v; want 0 and an error", text, got, err)
		}
	}
}

func TestUnknownStateString(t *testing.T) {
	for state, want := range map[wire.State]string{-1: "State(-1)", 0: "State(0)", 8: "State(8)"} {
		if got := state.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
