package asynq

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestParseOption(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 123, time.FixedZone("", 3600))
	for _, opt := range []Option{
		MaxRetry(3), Queue(`a"b\` + "\xff\n"), TaskID("a, b"), Timeout(90 * time.Millisecond), Timeout(math.MaxInt64), Deadline(at),
		Unique(time.Hour), ProcessAt(at), ProcessIn(-time.Minute), Retention(0), Group(")("), Header(`k", "`, `v")`), Header("", ""),
	} {
		for _, text := range []string{exactOption(opt), opt.String()} {
			got, ok := parseOption(text)
			if !ok {
				if opt.Type() != DeadlineOpt && opt.Type() != ProcessAtOpt {
					t.Errorf("%s cannot be read", text)
				}
				continue // a zone without a name
			}
			if want, ok := opt.Value().(time.Time); ok {
				if !got.Value().(time.Time).Equal(want) {
					t.Errorf("%s is read as %s", text, got)
				}
			} else if got.Type() != opt.Type() || !reflect.DeepEqual(got.Value(), opt.Value()) {
				t.Errorf("%s is read as %s", text, got)
			}
		}
	}
}

func TestParseOptionTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	if got, err := parseOptionTime(want.Format(time.UnixDate)); err != nil || !got.Equal(want) {
		t.Errorf("got %v, error %v", got, err)
	}
	if got, err := parseOptionTime("Sat Nov 21 08:00:00 XYZ 2026"); err == nil {
		t.Errorf("an unknown zone is taken for %v", got)
	}
}

func TestParseOptionsLeavesOut(t *testing.T) {
	t.Parallel()
	opts := parseOptions([]string{
		"", "Queue", "Queue(", "Queue)", "Queue()", `Queue("low"`, `Queue(low)`, "MaxRetry(many)", "Timeout(30)", "Deadline(soon)",
		`Header("k")`, `Header("k" "v")`, `Header(k, v)`, "Priority(3)", `Queue("low")`, "Timeout(30s)", `Header("k","v")`,
	})
	var texts []string
	for _, opt := range opts {
		texts = append(texts, opt.String())
	}
	if want := []string{`Queue("low")`, "Timeout(30s)", `Header("k", "v")`}; !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func TestCanonicalOptions(t *testing.T) {
	t.Parallel()
	same := [][]Option{
		{Queue("a"), MaxRetry(1), Header("x", "1"), Header("y", "2"), ProcessIn(time.Hour)},
		{Header("y", "2"), Queue("b"), ProcessAt(time.Now()), ProcessIn(time.Hour), MaxRetry(1), Queue("a"), Header("x", "0"), Header("x", "1")},
	}
	if a, b := canonicalOptions(same[0]), canonicalOptions(same[1]); !slices.Equal(a, b) {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := canonicalOptions([]Option{Queue("a"), Queue("b")}), canonicalOptions([]Option{Queue("b"), Queue("a")}); slices.Equal(a, b) {
		t.Errorf("%q for two queues", a)
	}
}

func FuzzParseOption(f *testing.F) {
	for _, text := range []string{`Queue("low")`, "MaxRetry(3)", "Timeout(1m30s)", "Deadline(Sat Nov 21 08:00:00 UTC 2026)", `Header("k", "v")`, "(", "Queue(`x`)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opt, ok := parseOption(text)
		if !ok {
			return
		}
		again, ok := parseOption(exactOption(opt))
		if t2, isTime := opt.Value().(time.Time); isTime {
			if ok && !again.Value().(time.Time).Equal(t2) {
				t.Errorf("%q is read as %v, and that as %v", text, opt, again)
			}
			return
		}
		if !ok || again.String() != opt.String() {
			t.Errorf("%q is read as %v, and that as %v", text, opt, again)
		}
	})
}
