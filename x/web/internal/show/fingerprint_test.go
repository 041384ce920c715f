package show_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

func TestFingerprint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"connection reset by peer", "connection reset by peer"},
		{"smtp: 421 service not available, closing transmission channel to mx7.example.com", "smtp: 421 service not available, closing transmission channel to mx#.example.com"},
		{"user 42 has -3.5 credits of 1,000", "user # has # credits of #,#"},
		{"index out of range [5] with length 3", "index out of range [#] with length #"},
		{"dial tcp 10.0.0.3:6379: connect: connection refused", "dial tcp ‹address›: connect: connection refused"},
		{"dial tcp [::1]:6379: connect: connection refused", "dial tcp ‹address›: connect: connection refused"},
		{"lookup redis-3.prod:6379 on 10.0.0.2:53: no such host", "lookup redis-#.prod:# on ‹address›: no such host"},
		{`Get "https://api.example.com/v1/users/42?q=1": context deadline exceeded`, `Get "‹text›": context deadline exceeded`},
		{"GET https://bob:secret@api.example.com/v1/users/42?q=a&b=c: 503", "GET https://api.example.com/‹path›: #"},
		{"task 8c6976e5-b541-0415-bde9-08bd4dee15df is gone", "task ‹uuid› is gone"},
		{"blob sha256:8c6976e5b5410415bde908bd4dee15df of order ord_9f8A7c6D5e4B3a2C", "blob sha#:‹hex› of order ‹id›"},
		{"unexpected fault address 0xc00001c0a8", "unexpected fault address ‹hex›"},
		{`no such user "ada \"the\" 1"`, `no such user "‹text›"`},
		{"can't open 'a b' or `c`", "can't open '‹text›' or `‹text›`"},
		{"open /var/lib/app/3.json: no such file", "open ‹path›: no such file"},
		{`C:\data\file.txt is locked`, `‹path› is locked`},
		{"main.go:42: bad and/or text/html in github.com/a/b", "main.go:#: bad and/or text/html in github.com/a/b"},
		{"timed out after 1m30.5s, limit 300ms", "timed out after ‹duration›, limit ‹duration›"},
		{"2026-11-21 14:03:59 and 2026-11-21T14:03:59.12Z: too late", "‹time› and ‹time›: too late"},
		{"mail to ada+42@example.com bounced", "mail to ‹email› bounced"},
		{"HTTP 503 after 3 tries", "HTTP 503 after # tries"},
		{"exit status 2; SQLSTATE 42P01; code=1062", "exit status 2; SQLSTATE 42P01; code=1062"},
		{"a\tb\n  c\u202e\x00d", "a b c d"},
		{"\xff\xfe", ""},
		{"panic: boom 7\n\ngoroutine 12 [running]:\nruntime/debug.Stack()\n\t/usr/go/src/runtime/debug/stack.go:26 +0x5e\nmain.resize.func1(0xc0001, 0x3)\n\t/app/main.go:42 +0x1d\nmain.handle(...)\n\t/app/main.go:17\n", "panic: boom # @ main.resize < main.handle"},
		{"cannot send\nexample.com/app/mail.Send\n\t/app/mail/send.go:12\nruntime.goexit\n\t/go/asm.s:1\nexample.com/app.run\n\t/app/run.go:9", "cannot send @ example.com/app/mail.Send < example.com/app.run"},
		{"java.lang.IllegalStateException: no 5\n\tat java.util.Map.get(Map.java:5)\n\tat app.Mail.send(Mail.java:31)\n", "java.lang.IllegalStateException: no # @ app.Mail.send"},
		{"Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in outer\n    inner(1)\n  File \"/app/a.py\", line 9, in inner\n    raise X\nValueError: 12 is bad", "ValueError: # is bad @ inner < outer"},
	} {
		if got := show.Fingerprint(c.text); got != c.want {
			t.Errorf("of %q\n got %q\nwant %q", c.text, got, c.want)
		}
	}
}

func TestFingerprintTellsErrorsApart(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"HTTP 503", "HTTP 404"},
		{"user 1 is gone", "order 1 is gone"},
		{"https://a.example/x/1 fails", "https://b.example/x/1 fails"},
		{"boom\nmain.a()\n\t/x/a.go:1", "boom\nmain.b()\n\t/x/a.go:1"},
	} {
		if a, b := show.Fingerprint(c[0]), show.Fingerprint(c[1]); a == b {
			t.Errorf("%q and %q are both %q", c[0], c[1], a)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	got := show.Parts("mx#.example: ‹path› ‹Not one› ‹")
	want := []show.Part{{Text: "mx"}, {Text: "#", Hole: true}, {Text: ".example: "}, {Text: "path", Hole: true}, {Text: " ‹"}, {Text: "Not one› ‹"}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for n := range got {
		if got[n] != want[n] {
			t.Errorf("part %d is %+v, want %+v", n, got[n], want[n])
		}
	}
}

func TestSplitError(t *testing.T) {
	t.Parallel()
	message, stack := show.SplitError("panic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/a.go:1\n")
	if message != "panic: boom" || stack != "goroutine 1 [running]:\nmain.f()\n\t/a.go:1" {
		t.Errorf("got %q and %q", message, stack)
	}
	if message, stack = show.SplitError("one\ntwo\n"); message != "one\ntwo" || stack != "" {
		t.Errorf("got %q and %q", message, stack)
	}
}

// FuzzFingerprint checks that a fingerprint is one bounded line without data of single tasks.
func FuzzFingerprint(f *testing.F) {
	for _, s := range []string{
		"user 42", `say "hello`, "‹path›", "https://a/b", "[::1]:1", "0x", "a\nmain.f()\n\t/x.go:1", pyText, "'", "://", "‹", "2026-01-01T", "::", strings.Repeat("9a", 3000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mark := show.Fingerprint(s)
		if !utf8.ValidString(mark) || len(mark) > 4000 {
			t.Fatalf("%d bytes, valid: %v", len(mark), utf8.ValidString(mark))
		}
		for _, r := range mark {
			if r != ' ' && !unicode.IsGraphic(r) || r == '\n' {
				t.Fatalf("%q holds %q", mark, r)
			}
		}
		if again := show.Fingerprint(s); again != mark {
			t.Fatalf("first %q, then %q", mark, again)
		}
		var joined strings.Builder
		for _, p := range show.Parts(mark) {
			if p.Hole && p.Text != "#" {
				joined.WriteString("‹" + p.Text + "›")
			} else {
				joined.WriteString(p.Text)
			}
		}
		if joined.String() != mark {
			t.Fatalf("the parts of %q are those of %q", mark, joined.String())
		}
	})
}

const pyText = "Traceback (most recent call last):\n  File \"a\", line 1, in f\nX"

func BenchmarkFingerprint(b *testing.B) {
	const text = "smtp: 421 service not available, closing transmission channel to mx7.example.com after 1m30s of 10.0.0.3:6379"
	b.ReportAllocs()
	for b.Loop() {
		show.Fingerprint(text)
	}
}
