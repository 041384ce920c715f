package dash

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ~":                  "plain ~",
		"Zürich 世界 🙂":              "Zürich 世界 🙂",
		"a\nb\tc":                  "a⏎b  c",
		"\x1b[2J\x07\x7f":          `\x1b[2J\x07\x7f`,
		"\xff\xfeok":               `\xff\xfeok`,
		"abc\u202edef\u200b\u2028": `abc\u202edef\u200b\u2028`,
		"\u0085":                   `\u0085`,
		"�":                        "�",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNumbersAndTimes(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		number(0): "0", number(999): "999", number(1000): "1,000", number(9_999_999): "9,999,999", number(12_345_678): "12.3M",
		number(-1234): "-1,234",
		span(0):       "0s", span(999 * time.Millisecond): "999ms", span(9999 * time.Millisecond): "9.9s", span(59 * time.Second): "59s",
		span(61 * time.Second): "1m01s", span(25 * time.Hour): "1d01h", span(-90 * time.Second): "-1m30s",
		rate(nil): "–", rate(series{math.NaN()}): "–", rate(series{0.001}): "<0.01", rate(series{0.25}): "0.25", rate(series{12.34}): "12.3", rate(series{1234}): "1,234",
		sizeOf(0): "–", sizeOf(1023): "1023 B", sizeOf(1536): "1.5 KiB", sizeOf(5 << 30): "5.0 GiB",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, n := range []int{math.MinInt, math.MaxInt} {
		if number(n) == "" || span(time.Duration(n)) == "" {
			t.Errorf("empty text for %v", n)
		}
	}
}

func TestPayloadKeepsNumbers(t *testing.T) {
	t.Parallel()
	lines, form := payload([]byte(`{"z":12345678901234567890.10,"a":[1e400,-0],"z":1.0}`), modeAuto, 80)
	want := "{\n  \"z\": 12345678901234567890.10,\n  \"a\": [\n    1e400,\n    -0\n  ],\n  \"z\": 1.0\n}"
	if got := strings.Join(lines, "\n"); form != "JSON" || got != want {
		t.Errorf("%s:\n%s\nwant\n%s", form, got, want)
	}
}

func TestPayloadForms(t *testing.T) {
	t.Parallel()
	long := []byte(strings.Repeat("世", maxPayload))
	for _, c := range []struct {
		data  []byte
		mode  payloadMode
		form  string
		first string
	}{
		{nil, modeAuto, "empty", "(empty)"},
		{[]byte("hello\tworld\r\nmore"), modeAuto, "text", "hello  world"},
		{[]byte("\x1b[31m"), modeAuto, "hex", "000000  1b 5b 33 31 6d"},
		{[]byte("\x1b[31m"), modeText, "text", `\x1b[31m`},
		{[]byte(`{"a":1}`), modeText, "text", `{"a":1}`},
		{[]byte(`{"a":1}`), modeHex, "hex", "000000  7b 22 61 22 3a 31 7d"},
		{[]byte("\xff\x00"), modeAuto, "hex", "000000  ff 00"},
		{long, modeAuto, "text", strings.Repeat("世", 40)},
	} {
		lines, form := payload(c.data, c.mode, 80)
		if form != c.form || !strings.HasPrefix(lines[0], c.first) {
			t.Errorf("%.20q: %s, %q; want %s, %q", c.data, form, lines[0], c.form, c.first)
		}
	}
	lines, _ := payload(long, modeAuto, 80)
	if last := lines[len(lines)-1]; last != "… and 131,072 bytes more" {
		t.Errorf("the last line is %q", last)
	}
}

// A prefix of text never ends within a rune. A prefix of other data is not text.
func TestPrefixOfText(t *testing.T) {
	t.Parallel()
	for _, rune := range []string{"a", "é", "世", "🙂"} {
		data := []byte(strings.Repeat(rune, 20))
		for most := range len(data) + 5 {
			got := string(prefix(data, most))
			if want := strings.Repeat(rune, min(most/len(rune), 20)); got != want {
				t.Errorf("the first %d bytes: %q, want %q", most, got, want)
			}
		}
	}
	if got := prefix([]byte("ab\x80\x80\x80\x80\x80\x80"), 7); len(got) != 7 {
		t.Errorf("prefix of bytes that are not text: %q", got)
	}
	for _, shift := range []string{"", "a", "ab"} {
		if data := []byte(shift + strings.Repeat("世", maxPayload)); !isText(data) {
			t.Errorf("after %q, runes of three bytes are not text", shift)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	at := noon
	poll := func(done, failed int, wait time.Duration) {
		q := &asynq.QueueInfo{ProcessedTotal: done, FailedTotal: failed, Latency: wait, Timestamp: at}
		h.add(&base{at: at, queues: []queueRow{{name: "q", info: q}}}, 10*time.Second)
		at = at.Add(10 * time.Second)
	}
	poll(100, 10, time.Second)
	poll(150, 12, 3*time.Second)
	q := h.of("q")
	if q.done.last() != 5 || q.failed.last() != 0.2 || q.wait.last() != 3 || h.all.done.last() != 5 {
		t.Errorf("got %+v, all %+v", q, h.all)
	}
	at = at.Add(-9 * time.Second) // an action made the poller poll immediately
	poll(1000, 12, 0)
	if len(q.done) != 2 {
		t.Errorf("the samples include a poll that was too early: %v", q.done)
	}
	at = at.Add(9 * time.Second)
	poll(3, 0, 0) // deleted and recreated
	if len(q.done) != 3 || !math.IsNaN(q.done[2]) || !math.IsNaN(h.all.done[2]) {
		t.Errorf("decreasing totals gave the rate %v", q.done)
	}
	for range 3 * maxSamples {
		poll(3, 0, 0)
	}
	if len(q.done) != maxSamples || cap(q.done) > 4*maxSamples {
		t.Errorf("kept %d samples", len(q.done))
	}
	h.add(&base{at: at.Add(time.Hour)}, time.Second)
	if len(h.queues) != 0 {
		t.Errorf("removed queues are kept: %v", h.queues)
	}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	if got := spark(series{0, 1, math.NaN(), 4, 8}, 6); got != " ▁▁ ▄█" {
		t.Errorf("got %q", got)
	}
	if got := graph(series{8, 4, 16}, 3, 2); !slices.Equal(got, []string{"  █", "█▄█"}) {
		t.Errorf("got %q", got)
	}
	if got := graph(series{1}, 0, 1); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	cols := []column{{title: "ID", minWidth: 4, shrink: 1}, {title: "N", right: true}, {title: "WHAT", minWidth: 6}, {title: "MORE", rank: 1}}
	rows := []row{{cells: []cell{text("0123456789"), text("17"), text("something"), text("more")}}}
	for w, want := range map[int][]int{
		40: {10, 2, 9, 4}, 31: {10, 2, 9, 4}, 29: {8, 2, 9, 4}, 25: {4, 2, 9, 4}, 23: {4, 2, 7, 4}, 21: {6, 2, 9, 0}, 10: {4, 2, 6, 0},
	} {
		if got := layout(cols, rows, w); !slices.Equal(got, want) {
			t.Errorf("%d cells: %v, want %v", w, got, want)
		}
	}
}
