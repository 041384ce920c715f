package wire_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestAttempts(t *testing.T) {
	all := []wire.Attempt{
		{Number: 99, Ended: 1_700_000_000_000, Kind: wire.AttemptLeaseExpired, Err: "lease expired"},
		{Number: 100, Started: 1_700_000_000_001, Ended: 1_700_000_000_500, Kind: wire.AttemptFailed, Server: "host:1", Err: "two\nlines <&>"},
	}
	log := wire.EncodeAttempts(all)
	older := "log:99\n" + `{"n":99,"ended":1700000000000,"kind":"lease_expired","error":"lease expired"}`
	newer := "log:0\n" + `{"n":100,"started":1700000000001,"ended":1700000000500,"kind":"failed","server":"host:1","error":"two\nlines <&>"}`
	if string(log) != older+"\n"+newer {
		t.Errorf("encoded:\n%s", log)
	}
	for _, text := range []string{string(log), string(log) + "\n", "\n" + newer + "\n" + older, "junk\n" + string(log) + "\n{\"ended\":"} {
		if got := wire.DecodeAttempts([]byte(text)); !slices.Equal(got, all) {
			t.Errorf("%q is decoded as %+v", text, got)
		}
	}
	if got := wire.DecodeAttempts(nil); got != nil {
		t.Errorf("no log is decoded as %+v", got)
	}
}

// Each attempt has a number, also those after which a task was archived, and any number a field.
func TestAttemptNumbers(t *testing.T) {
	msg := &wire.TaskMessage{Retried: 25}
	for want := range 3 {
		if got := msg.Archived(); got != want {
			t.Errorf("archived %d times, want %d", got, want)
		}
		msg.CountArchived()
	}
	msg.SetExt("archived=many")
	if got := msg.Archived(); got != 0 {
		t.Errorf("a malformed number is read as %d", got)
	}
	for number, want := range map[int]string{0: "log:0", 99: "log:99", 100: "log:0", 1234: "log:34"} {
		if got := wire.LogField(number); got != want {
			t.Errorf("attempt %d is stored as %s, want %s", number, got, want)
		}
	}
	if got := wire.LogField(-1); !strings.HasPrefix(got, wire.FieldLog) { // of a hostile message
		t.Errorf("a negative number is stored as %s", got)
	}
}

// An entry is a line of a bounded size, whatever the error is.
func TestAttemptIsBounded(t *testing.T) {
	for _, part := range []string{"x", "\n", "\x00", "ü", "\xff", "\u2028", "\"", "x\x01"} {
		for _, n := range []int{0, 1, 150, 170, 171, 400, 500, 512, 1000, 1022, 1023, 1024, 5000, 100_000} {
			a := wire.Attempt{Started: 1 << 62, Ended: 1 << 62, Kind: wire.AttemptStuck, Server: strings.Repeat(part, n), Err: strings.Repeat(part, n)}
			line := a.Encode()
			var got wire.Attempt
			if err := json.Unmarshal(line, &got); err != nil || !utf8.Valid(line) || strings.Contains(string(line), "\n") {
				t.Fatalf("%d times %q: %v: %s", n, part, err, line)
			}
			text, _ := json.Marshal(got.Err)
			if len(text) > wire.MaxAttemptErr || len(text) < wire.MaxAttemptErr-12 && n > 1024 && part != "\xff" || len(line) > 3000 {
				t.Errorf("%d times %q: %d bytes, of which the error has %d", n, part, len(line), len(text))
			}
			if valid := strings.ToValidUTF8(a.Err, "\uFFFD"); !strings.HasPrefix(valid, got.Err) || n < 100 && got.Err != valid {
				t.Errorf("%d times %q: the error is %q", n, part, got.Err)
			}
		}
	}
}

func TestProgress(t *testing.T) {
	p := wire.Progress{Fraction: 0.4, Note: "rows <400>", At: 1_700_000_000_123}
	if got := string(p.Encode()); got != `{"fraction":0.4,"note":"rows <400>","at":1700000000123}` {
		t.Errorf("encoded: %s", got)
	}
	if got := wire.DecodeProgress(p.Encode()); got == nil || *got != p {
		t.Errorf("decoded: %+v", got)
	}
	for _, junk := range []string{"", "null x", "{", "[]"} {
		if got := wire.DecodeProgress([]byte(junk)); got != nil {
			t.Errorf("%q is decoded as %+v", junk, got)
		}
	}
}
