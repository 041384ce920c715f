package timetable_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests use their own zone database, not that of the machine
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/timetable"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, spec, zone string
		from             string
		want             string // consecutive ticks, UTC; "-" for none
	}{
		{"minutes", "*/15 * * * *", "UTC", "2026-11-21T10:07:30Z", "2026-11-21T10:15:00Z 2026-11-21T10:30:00Z"},
		{"a tick is after t, not at t", "0 * * * *", "UTC", "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"},
		{"just before", "0 * * * *", "UTC", "2026-11-21T09:59:59.999Z", "2026-11-21T10:00:00Z"},
		{"descriptor", "@daily", "UTC", "2026-12-31T10:00:00Z", "2027-01-01T00:00:00Z 2027-01-02T00:00:00Z"},
		{"location", "0 9 * * *", "Asia/Tokyo", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"descriptor in a location", "@daily", "Asia/Tokyo", "2026-11-21T10:00:00Z", "2026-11-21T15:00:00Z"},
		{"the spec's zone takes precedence", "CRON_TZ=America/New_York 0 9 * * *", "Asia/Tokyo", "2026-11-21T00:00:00Z", "2026-11-21T14:00:00Z"},
		{"TZ instead of CRON_TZ", "TZ=America/New_York 0 9 * * *", "Asia/Tokyo", "2026-11-21T00:00:00Z", "2026-11-21T14:00:00Z"},
		{"zone with a descriptor", "CRON_TZ=Asia/Tokyo @daily", "UTC", "2026-11-21T10:00:00Z", "2026-11-21T15:00:00Z"},
		{"zone with an interval", "CRON_TZ=Asia/Tokyo @every 90s", "UTC", "2026-11-21T10:00:00Z", "2026-11-21T10:01:30Z"},
		{"spring: no ticks in the skipped hour", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"spring: hourly ticks continue", "0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			"2026-03-29T01:00:00Z 2026-03-29T02:00:00Z"},
		{"spring: noon moves", "0 12 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-28T11:00:00Z 2026-03-29T10:00:00Z"},
		{"autumn: the repeated hour has its ticks twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-26T01:30:00Z"},
		{"midnight is skipped", "0 0 * * *", "America/Asuncion", "2023-09-30T12:00:00Z", "2023-10-02T03:00:00Z"},
		{"leap day", "0 0 29 2 *", "UTC", "2026-11-21T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
		{"no leap day in 2100", "0 0 29 2 *", "UTC", "2099-11-21T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"never", "0 0 30 2 *", "UTC", "2026-11-21T00:00:00Z", "-"},
		{"the 31st of months that have it", "0 0 31 * *", "UTC", "2026-11-21T00:00:00Z", "2026-12-31T00:00:00Z 2027-01-31T00:00:00Z"},
	} {
		s, err := timetable.Parse(tt.spec, zone(t, tt.zone), false)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		next := at(t, tt.from)
		for _, want := range strings.Fields(tt.want) {
			next = s.Next(next)
			if want == "-" {
				if !next.IsZero() {
					t.Errorf("%s: next is %v, want none", tt.name, next)
				}
			} else if !next.Equal(at(t, want)) {
				t.Errorf("%s: next is %v, want %s", tt.name, next.UTC(), want)
				break
			}
		}
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	from := at(t, "2026-11-21T10:07:31.5Z")
	for _, tt := range []struct {
		spec    string
		aligned bool
		want    string
	}{
		{"@every 1h", false, "2026-11-21T11:07:31Z"},
		{"@every 1h", true, "2026-11-21T11:00:00Z"},
		{"@every 7s", true, "2026-11-21T10:07:38Z"},
		{"@every 10ms", true, "2026-11-21T10:07:32Z"},
		{"CRON_TZ=Asia/Tokyo @every 24h", true, "2026-11-22T00:00:00Z"},
	} {
		s, err := timetable.Parse(tt.spec, time.UTC, tt.aligned)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(from); !got.Equal(at(t, tt.want)) {
			t.Errorf("%s, aligned %v: %v, want %s", tt.spec, tt.aligned, got.UTC(), tt.want)
		}
	}
	if got := timetable.Every(time.Second).Next(time.Unix(-2, -1)); !got.Equal(time.Unix(-2, 0)) {
		t.Errorf("before 1970: %v", got)
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"", " ", "* * * *", "* * * * * *", "60 * * * *", "@sometimes", "@every", "@every 0", "@every -5m", "@every soon", "CRON_TZ=", "TZ=UTC",
		"CRON_TZ=Nowhere/City * * * * *", "TZ=UTC TZ=UTC * * * * *", "TZ=UTC TZ=UTC", "* * * * \xff", "CRON_TZ=../x @daily",
	} {
		if _, err := timetable.Parse(spec, time.UTC, false); err == nil || !strings.Contains(err.Error(), "cron spec") {
			t.Errorf("%q: error %v", spec, err)
		}
	}
}

// Iterating over all ticks finds the same as Latest and Newest.
func TestLatestAndNewest(t *testing.T) {
	t.Parallel()
	specs := []string{"* * * * *", "*/7 3 * * *", "0 0 1 * *", "30 2 * * *", "@every 90s", "0 0 29 2 *", "0 0 30 2 *", "*/5 0,12 31 12 *"}
	berlin := zone(t, "Europe/Berlin")
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(specs).Draw(t, "spec")
		s, err := timetable.Parse(spec, berlin, true)
		if err != nil {
			t.Fatal(err)
		}
		after := time.UnixMilli(rapid.Int64Range(1.7e12, 1.8e12).Draw(t, "after"))
		until := after.Add(time.Duration(rapid.Int64Range(-1000, 40*86_400_000).Draw(t, "span")) * time.Millisecond)
		if spec == "* * * * *" || spec == "@every 90s" {
			until = after.Add(until.Sub(after) / 100)
		}
		var all []time.Time
		for next := s.Next(after); !next.IsZero() && !next.After(until); next = s.Next(next) {
			all = append(all, next)
		}
		latest := timetable.Latest(s, after, until)
		if len(all) == 0 && !latest.IsZero() || len(all) > 0 && !latest.Equal(all[len(all)-1]) {
			t.Fatalf("latest is %v of %v", latest, all)
		}
		n := rapid.IntRange(0, 5).Draw(t, "n")
		want := all[len(all)-min(n, len(all)):]
		if got := timetable.Newest(s, after, until, n); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("newest are %v, want %v", got, want)
		}
	})
}

// Latest over years costs no more than over a minute.
func TestLatestTakesFewCalls(t *testing.T) {
	t.Parallel()
	s := &counted{Schedule: timetable.Every(time.Second)}
	until := at(t, "2026-11-21T10:00:00.5Z")
	if got := timetable.Latest(s, until.AddDate(-5, 0, 0), until); !got.Equal(until.Truncate(time.Second)) || s.calls > 100 {
		t.Errorf("returned %v after %d calls", got, s.calls)
	}
}

type counted struct {
	timetable.Schedule
	calls int
}

func (c *counted) Next(t time.Time) time.Time {
	c.calls++
	return c.Schedule.Next(t)
}

func FuzzParse(f *testing.F) {
	for _, spec := range []string{"* * * * *", "@every 1h", "CRON_TZ=UTC @daily", "TZ=UTC", "1-59/7,3 */2 ? JAN-DEC MON", "@every 2562047h", "\xff * * * *", "?-\xff * * * *"} {
		f.Add(spec)
	}
	tokyo := zone(f, "Asia/Tokyo")
	f.Fuzz(func(t *testing.T, spec string) {
		for _, aligned := range []bool{true, false} {
			s, err := timetable.Parse(spec, tokyo, aligned)
			if err != nil {
				if s != nil || !strings.Contains(err.Error(), strconv.Quote(spec)) {
					t.Errorf("%q: %v, and the error %q", spec, s, err)
				}
				continue
			}
			if !utf8.ValidString(spec) {
				t.Errorf("%q is accepted, but cannot be published", spec)
			}
			from := time.Unix(1_800_000_000, 0)
			for range 3 {
				next := s.Next(from)
				if next.IsZero() {
					break
				}
				if !next.After(from) {
					t.Errorf("the tick of %q after %v is %v", spec, from, next)
				}
				from = next
			}
		}
	})
}
