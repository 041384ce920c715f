package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestServerControlKeys(t *testing.T) {
	server := wire.DefaultNamespace.Server(wire.Process{Host: "web-1", PID: 42, ID: "1b4e"})
	for got, want := range map[string]string{
		wire.ServerControlKey(server): "asynq:servers:{web-1:42:1b4e}:control",
		wire.ServerCommands(server):   "asynq:servers:{web-1:42:1b4e}:commands",
		wire.ServerReplies(server):    "asynq:servers:{web-1:42:1b4e}:replies",
	} {
		if got != want || slot(got) != slot(server) {
			t.Errorf("got %q, want %q in the slot of the server", got, want)
		}
	}
}

func TestServerCommand(t *testing.T) {
	for _, tt := range []struct {
		command wire.ServerCommand
		text    string
	}{
		{wire.ServerCommand{ID: "1", Verb: wire.CommandQuiet}, `{"id":"1","verb":"quiet"}`},
		{wire.ServerCommand{ID: "2", Verb: wire.CommandPause, Queue: "low"}, `{"id":"2","verb":"pause","queue":"low"}`},
		{wire.ServerCommand{ID: "3", Verb: wire.CommandConcurrency, N: 7}, `{"id":"3","verb":"concurrency","n":7}`},
	} {
		text, err := tt.command.Encode()
		if err != nil || text != tt.text {
			t.Errorf("encoded as %s, error %v, want %s", text, err, tt.text)
		}
		if got, err := wire.DecodeServerCommand(tt.text); err != nil || got != tt.command {
			t.Errorf("%s is decoded as %+v, error %v", tt.text, got, err)
		}
	}
	for _, text := range []string{"", "[]", `{"n":"x"}`} {
		if got, err := wire.DecodeServerCommand(text); err == nil {
			t.Errorf("%q is decoded as %+v", text, got)
		}
	}
}

func TestServerControl(t *testing.T) {
	for text, want := range map[string]*wire.ServerControl{
		"{}":                        {},
		`{"refuses":true}`:          {Refuses: true},
		`{"paused":["high","low"]}`: {Paused: []string{"high", "low"}},
	} {
		got, err := wire.DecodeServerControl(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, difference (-want +got):\n%s", text, err, diff)
		}
		if encoded, err := want.Encode(); string(encoded) != text || err != nil {
			t.Errorf("encoded as %s, error %v, want %s", encoded, err, text)
		}
	}
	if got, err := wire.DecodeServerControl("x"); err == nil {
		t.Errorf("decoded as %+v", got)
	}
}

// The message is neither a cancellation of a task nor the other way around.
func TestControlMessage(t *testing.T) {
	if id, ok := wire.ParseControl(wire.ControlMessage("1b4e")); id != "1b4e" || !ok {
		t.Errorf("parsed as %q, %t", id, ok)
	}
	for _, outcome := range []wire.CancelOutcome{wire.CancelRetry, wire.CancelArchive, wire.CancelDelete} {
		if id, ok := wire.ParseControl(wire.CancelMessage("t", outcome)); ok {
			t.Errorf("a cancellation is a command to server %q", id)
		}
	}
	message := wire.ControlMessage("1b4e")
	if id, outcome := wire.ParseCancel(message); id != message || outcome != wire.CancelRetry {
		t.Errorf("a message to a server cancels %q with %v", id, outcome)
	}
}
