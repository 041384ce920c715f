package spec

import (
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"* * * * *":                    "every minute",
		"*/1 * * * *":                  "every minute",
		"*/15 * * * *":                 "every 15 minutes",
		"0 * * * *":                    "every hour",
		"@hourly":                      "every hour",
		"1 * * * *":                    "every hour at 1 minute past",
		"5,35 * * * *":                 "every hour at 5 and 35 minutes past",
		"0 */6 * * *":                  "every 6 hours",
		"10 */6 * * *":                 "every 6 hours from 00:10 on",
		"30 4 * * *":                   "every day at 04:30",
		"30 4 ? * ?":                   "every day at 04:30",
		"30 4,16 * * *":                "every day at 04:30 and 16:30",
		"0,30 4 * * *":                 "every day at 04:00 and 04:30",
		"@daily":                       "every day at 00:00",
		"@midnight":                    "every day at 00:00",
		"@weekly":                      "on Sundays at 00:00",
		"@monthly":                     "on the 1st of every month at 00:00",
		"@yearly":                      "on the 1st of January at 00:00",
		"0 8 * * MON":                  "on Mondays at 08:00",
		"0 8 * * mon-fri":              "Monday to Friday at 08:00",
		"0 8 * * 6,0":                  "Saturdays and Sundays at 08:00",
		"0 8 * * 0,1,4":                "on Mondays, Thursdays and Sundays at 08:00",
		"*/5 9-17 * * 1-5":             "every 5 minutes Monday to Friday from 09:00 to 17:55",
		"* 4 * * *":                    "every minute from 04:00 to 04:59",
		"15 9-17 * * *":                "every hour from 09:15 to 17:15",
		"0 0 1,2,3,11,22 * *":          "on the 1st, 2nd, 3rd, 11th and 22nd of every month at 00:00",
		"0 0 13 * 5":                   "on the 13th of every month, and on Fridays at 00:00",
		"0 12 24 12 *":                 "on the 24th of December at 12:00",
		"0 12 * jun,jul *":             "every day in June and July at 12:00",
		"*/10 * * 7 *":                 "every 10 minutes in July",
		"CRON_TZ=Asia/Tokyo 0 6 * * *": "every day at 06:00 in Asia/Tokyo",
		"TZ=Asia/Tokyo 0 6 * * *":      "every day at 06:00 in Asia/Tokyo",
		"@every 90s":                   "every 1m 30s",
		"@every 1h":                    "every 1h",
		"@every 100ms":                 "every 1s",
		"@every -5s":                   "",
		"*/7 * * * *":                  "", // at minute 56, and 4 minutes later at minute 0
		"0 0 */2 * *":                  "",
		"0 0 * * */2":                  "",
		"0-30/5 * * * *":               "",
		"1,2,3,4,5,6 * * * *":          "",
		"61 * * * *":                   "",
		"TZ=Asia/Tokyo":                "",
		"TZ=x TZ=y * * * * *":          "",
		"":                             "",
		"nonsense":                     "",
		"<script>":                     "",
		"* * * * * *":                  "",
		"@every 1s 2s":                 "",
		"0 0 31 2 *":                   "on the 31st of February at 00:00",
	} {
		if got := Words(text); got != want {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestLocated(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec       string
		prev, next time.Time
		zone       string // empty: unknown
		then       time.Time
	}{
		{"0 4 * * *", time.Time{}, at("2026-11-21 04:00:00"), "UTC", at("2026-11-22 04:00:00")},
		{"0 4 * * *", at("2026-11-20 02:00:00"), at("2026-11-21 02:00:00"), "UTC+02:00", at("2026-11-22 02:00:00")},
		{"0 4 * * *", time.Time{}, at("2026-11-20 22:15:00"), "UTC+05:45", at("2026-11-21 22:15:00")},
		{"0 4 * * *", time.Time{}, at("2026-11-20 09:00:00"), "UTC−05:00", at("2026-11-21 09:00:00")},
		{"0 4,5 * * *", time.Time{}, at("2026-11-21 02:00:00"), "", time.Time{}}, // may be 4 or 5 there
		{"0 4,5 * * *", at("2026-11-20 02:00:00"), at("2026-11-21 01:00:00"), "UTC+03:00", at("2026-11-21 02:00:00")},
		{"0 4 * * *", time.Time{}, at("2026-11-21 04:00:07"), "", time.Time{}},
	} {
		s, loc := Located(test.spec, test.prev, test.next)
		if test.zone == "" {
			if s != nil {
				t.Errorf("%s, next %v: it is said to be known in %v", test.spec, test.next, loc)
			}
			continue
		}
		if s == nil || loc.String() != test.zone {
			t.Errorf("%s, next %v: zone %v, want %s", test.spec, test.next, loc, test.zone)
			continue
		}
		if got := s.Next(test.next); !got.Equal(test.then) {
			t.Errorf("%s: after %v comes %v, want %v", test.spec, test.next, got, test.then)
		}
	}
	s, loc := Located("TZ=Asia/Tokyo 0 6 * * *", time.Time{}, at("2026-11-20 21:00:00"))
	if s == nil || loc != nil || s.Zone != "Asia/Tokyo" || !s.Next(at("2026-11-20 21:00:00")).Equal(at("2026-11-21 21:00:00")) {
		t.Errorf("a spec with a zone of its own: %+v, %v", s, loc)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	every, err := Parse("@every 20s", time.UTC)
	if err != nil || every.Every != 20*time.Second {
		t.Fatalf("@every 20s: %+v, %v", every, err)
	}
	from := at("2026-11-21 12:00:07")
	if got := every.After(from, 2); len(got) != 2 || !got[1].Equal(at("2026-11-21 12:00:47")) {
		t.Errorf("the two after %v: %v", from, got)
	}
	if got := every.Between(from, from.Add(time.Minute), 100); got != 2 {
		t.Errorf("%d ticks within, and without the ends of, a minute; want 2", got)
	}
	if got := every.Between(from, from.Add(time.Hour*24*365), 100); got != 100 {
		t.Errorf("%d ticks in a year, want it bounded by 100", got)
	}
	never, err := Parse("0 0 31 2 *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if got := never.After(from, 5); got != nil {
		t.Errorf("ticks of a day that there is not: %v", got)
	}
	for _, text := range []string{"", "@every 0s", "TZ=Nowhere/At 0 0 * * *", "TZ=Asia/Tokyo", "1 2 3"} {
		if _, err := Parse(text, time.UTC); err == nil {
			t.Errorf("%q can be read", text)
		}
	}
}

// FuzzWords checks that no spec panics the parser.
func FuzzWords(f *testing.F) {
	for _, seed := range []string{"*/5 9-17 * * 1-5", "TZ=", "TZ= ", "@every", "@every 1ns", "1-0 * * * *", "*/0 * * * *", "99999999999999999999 * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		said := Words(text)
		if _, err := Parse(text, time.UTC); err != nil && said != "" && !hasZone(text) {
			t.Errorf("%q is %q, and cannot be read: %v", text, said, err)
		}
	})
}

func hasZone(text string) bool {
	zone, _ := cutZone(text)
	return zone != ""
}
