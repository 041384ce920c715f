package wire_test

import (
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestCancelMessages(t *testing.T) {
	for message, want := range map[string]struct {
		id   string
		fate wire.Fate
	}{
		"a":                   {"a", wire.FateRetry},
		"":                    {"", wire.FateRetry},
		"archive a":           {"archive a", wire.FateRetry},
		"\x00archive\x00a b":  {"a b", wire.FateArchive},
		"\x00delete\x00a":     {"a", wire.FateDelete},
		"\x00delete\x00":      {"", wire.FateDelete},
		"\x00snooze\x00a":     {"\x00snooze\x00a", wire.FateRetry},
		"\x00archive":         {"\x00archive", wire.FateRetry},
		"a\x00archive\x00b":   {"a\x00archive\x00b", wire.FateRetry},
		"\x00archive\x00\x00": {"\x00", wire.FateArchive},
	} {
		id, fate := wire.ParseCancel(message)
		if id != want.id || fate != want.fate {
			t.Errorf("%q says %q, %d; want %q, %d", message, id, fate, want.id, want.fate)
		}
		if got := wire.CancelMessage(id, fate); got != message {
			t.Errorf("%q, %d is spelled %q, want %q", id, fate, got, message)
		}
	}
}
