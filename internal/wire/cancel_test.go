package wire_test

import (
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestCancelMessages(t *testing.T) {
	for message, want := range map[string]struct {
		id      string
		outcome wire.CancelOutcome
	}{
		"a":                   {"a", wire.CancelRetry},
		"":                    {"", wire.CancelRetry},
		"archive a":           {"archive a", wire.CancelRetry},
		"\x00archive\x00a b":  {"a b", wire.CancelArchive},
		"\x00delete\x00a":     {"a", wire.CancelDelete},
		"\x00delete\x00":      {"", wire.CancelDelete},
		"\x00snooze\x00a":     {"\x00snooze\x00a", wire.CancelRetry},
		"\x00archive":         {"\x00archive", wire.CancelRetry},
		"a\x00archive\x00b":   {"a\x00archive\x00b", wire.CancelRetry},
		"\x00archive\x00\x00": {"\x00", wire.CancelArchive},
	} {
		id, outcome := wire.ParseCancel(message)
		if id != want.id || outcome != want.outcome {
			t.Errorf("%q is parsed as %q, %d; want %q, %d", message, id, outcome, want.id, want.outcome)
		}
		if got := wire.CancelMessage(id, outcome); got != message {
			t.Errorf("%q, %d is encoded as %q, want %q", id, outcome, got, message)
		}
	}
}
