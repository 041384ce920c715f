package show_test

import (
	"math"
	"testing"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{show.Number(0), "0"},
		{show.Number(-1234), "-1,234"},
		{show.Number(100), "100"},
		{show.Number(math.MinInt64), "-9,223,372,036,854,775,808"},
		{show.Short(0), "0"},
		{show.Short(999), "999"},
		{show.Short(999.6), "1k"},
		{show.Short(12_345), "12.3k"},
		{show.Short(999_499), "999k"},
		{show.Short(999_999), "1M"},
		{show.Short(-1_500_000), "-1.5M"},
		{show.Short(3e15), "3000T"},
		{show.Short(0.25), "0.2"},
		{show.PerSecond(0.004), "0"},
		{show.PerSecond(0.02), "0.02"},
		{show.PerSecond(3.44), "3.4"},
		{show.PerSecond(9.97), "10"},
		{show.PerSecond(12345), "12,345"},
		{show.PerSecond(math.NaN()), "–"},
		{show.Percent(0, 0), "–"},
		{show.Percent(0, 5), "0 %"},
		{show.Percent(1, 100_000), "<0.1 %"},
		{show.Percent(99_999, 100_000), ">99.9 %"},
		{show.Percent(1, 1), "100 %"},
		{show.Percent(1, 3), "33 %"},
		{show.Percent(1, 30), "3.3 %"},
		{show.Bytes(0), "0 B"},
		{show.Bytes(1023), "1023 B"},
		{show.Bytes(1024), "1.0 KiB"},
		{show.Bytes(1 << 20), "1.0 MiB"},
		{show.Bytes(1<<20 - 1), "1.0 MiB"},
		{show.Bytes(300 << 20), "300 MiB"},
		{show.Bytes(math.MaxInt64), "8.0 EiB"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 14, 3, 59, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{show.Duration(0), "0s"},
		{show.Duration(5), "5ns"},
		{show.Duration(820 * time.Millisecond), "820ms"},
		{show.Duration(4290 * time.Millisecond), "4.2s"},
		{show.Duration(59*time.Second + 999*time.Millisecond), "59s"},
		{show.Duration(200 * time.Second), "3m 20s"},
		{show.Duration(time.Hour), "1h"},
		{show.Duration(76 * time.Hour), "3d 4h"},
		{show.Duration(-time.Minute), "-1m"},
		{show.From(now, time.Time{}), ""},
		{show.From(now, now.Add(500*time.Millisecond)), "now"},
		{show.From(now, now.Add(-90*time.Second)), "1m 30s ago"},
		{show.From(now, now.Add(25*time.Hour)), "in 1d 1h"},
		{show.Time(now), "2026-11-21 14:03:59"},
		{show.Time(time.Time{}), ""},
		{show.Day(now), "Sat 21 Nov"},
		{show.Plural(1, "task"), "1 task"},
		{show.Plural(1200, "task"), "1,200 tasks"},
		{show.Plural(2, "retry", "retries"), "2 retries"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
