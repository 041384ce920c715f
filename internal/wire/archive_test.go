package wire_test

import (
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestArchiveLimits(t *testing.T) {
	for _, l := range []wire.ArchiveLimits{wire.DefaultArchiveLimits, {Tasks: 1, Age: time.Second}, {Tasks: 1 << 30, Age: 100 * 365 * 24 * time.Hour}} {
		if got, ok := wire.ParseArchiveLimits(l.Encode()); !ok || got != l {
			t.Errorf("%+v became %q, and then %+v", l, l.Encode(), got)
		}
	}
	for _, text := range []string{"", "1", "x 1", "1 x", "0 1", "1 0", "-1 1", "1 -1", "1 99999999999999", "99999999999999999999 1"} {
		if got, ok := wire.ParseArchiveLimits(text); ok {
			t.Errorf("%q became %+v", text, got)
		}
	}
}
