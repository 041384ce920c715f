package errorkind_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/errorkind"
	"github.com/asynq-go/asynq/internal/redistest"
)

// group is the texts of one kind in the corpus.
type group struct {
	name  string
	texts []string
}

func corpus(t testing.TB) (groups []group) {
	t.Helper()
	b, err := os.ReadFile("testdata/kinds.txt")
	if err != nil {
		t.Fatal(err)
	}
	escapes := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			groups = append(groups, group{name: name})
		} else if line != "" && !strings.HasPrefix(line, "# ") {
			g := &groups[len(groups)-1]
			g.texts = append(g.texts, escapes.Replace(line))
		}
	}
	return groups
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	groups := corpus(t)
	texts := 0
	names := make(map[string]string)
	for _, g := range groups {
		kind := errorkind.Of(g.texts[0])
		t.Logf("%s: %s", g.name, kind)
		if other, ok := names[kind]; ok {
			t.Errorf("%q and %q have the same kind %q", other, g.name, kind)
		}
		names[kind] = g.name
		texts += len(g.texts)
		for _, text := range g.texts {
			got := errorkind.Of(text)
			if got != kind {
				t.Errorf("%s: %q\n is %q\nnot %q", g.name, text, got, kind)
			}
			check(t, got)
		}
	}
	if len(groups) < 40 || texts < 150 {
		t.Errorf("%d texts in %d kinds, want 150 in 40", texts, len(groups))
	}
}

// check checks what holds for the kinds of all texts.
func check(t testing.TB, kind string) {
	t.Helper()
	if !utf8.ValidString(kind) {
		t.Fatalf("%q is not valid UTF-8", kind)
	}
	for _, r := range kind {
		if r != ' ' && !unicode.IsGraphic(r) || r == '\n' {
			t.Fatalf("%q holds %q", kind, r)
		}
	}
	message, frames := kind, ""
	if n := strings.LastIndex(kind, " @ "); n >= 0 {
		message, frames = kind[:n], kind[n+3:]
	}
	if len(message) > errorkind.MaxBytes || len(frames) > errorkind.MaxBytes {
		t.Fatalf("%q has %d and %d bytes", kind, len(message), len(frames))
	}
	if again := errorkind.Of(kind); again != kind {
		t.Fatalf("the kind of %q is %q", kind, again)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"connection reset by peer", "connection reset by peer"},
		{"closing transmission channel to mx7.example.com", "closing transmission channel to mx#.example.com"},
		{"lookup redis-3.prod:6379 on 10.0.0.2:53: no such host", "lookup redis-#.prod:# on ‹address›: no such host"},
		{"GET https://bob:secret@api.example.com/v1/users/42?q=a&b=c: 503", "GET https://api.example.com/v1/users/#: 503"},
		{"https://bob:se/cr@et@api.example.com/v1?x fails", "https://api.example.com/v1 fails"},
		{"https://bob:se/cret is no URL", "https:// is no URL"},
		{"postgres://bob:secret@10.0.0.7:5432/shop?sslmode=off: closed", "postgres://‹address›/shop: closed"},
		{"bob:secret@tcp(10.0.0.7:3306)/shop: closed", "‹text›@tcp(‹address›)‹path›: closed"},
		{"GET /v1/users/42/orders/8c6976e5-b541-0415-bde9-08bd4dee15df?x=1 failed", "GET /v1/users/#/orders/‹id› failed"},
		{"see https://example.com/a/2026-11-23/v1/f%20g/ada@example.com/#top.", "see https://example.com/a/‹time›/v1/‹id›/‹id›/#top."},
		{"blob sha256:8c6976e5b5410415bde908bd4dee15df of order ord_9f8A7c6D5e4B3a2C", "blob sha256:‹id› of order ord_‹id›"},
		{`no such user "ada \"the\" 1"`, `no such user "‹text›"`},
		{"can't open 'a b' or `c`", "can't open '‹text›' or `‹text›`"},
		{`column "price" of "x y"`, `column "price" of "‹text›"`},
		{`level=error msg="dial tcp 10.0.0.1:53: i/o timeout" user="ada"`, `level=error msg="dial tcp ‹address›: i/o timeout" user="‹text›"`},
		{`C:\data\file.txt is locked`, `‹path› is locked`},
		{"main.go:42: bad and/or text/html in github.com/a/b", "main.go:#: bad and/or text/html in github.com/a/b"},
		{"timed out after 1m30.5s, limit 300ms", "timed out after ‹duration›, limit ‹duration›"},
		{"2026-11-21 14:03:59 and 2026-11-21T14:03:59.12Z: too late", "‹time› and ‹time›: too late"},
		{"between 2026-11-21 2026-11-21T14:03:59.123456Z", "between ‹time›"},
		{"https://3scale.example/a1b/4file.png fails", "https://#scale.example/a#b/#file.png fails"},
		{"https://mx7.example.com:8443/img_12.png fails", "https://mx#.example.com:#/img_#.png fails"},
		{"https://a.example/#access_token=s3cret fails", "https://a.example/‹id› fails"},
		{"https://a.example#access_token=s3cret fails", "https://‹text› fails"},
		{"mail to ada+42@example.com bounced", "mail to ‹email› bounced"},
		{"HTTP 503 after 3 tries", "HTTP 503 after # tries"},
		{"HTTP/1.1 503 Service Unavailable", "HTTP/#.# 503 Service Unavailable"},
		{"server returned 404 for user 404", "server returned 404 for user #"},
		{"503 from initech", "503 from initech"},
		{"read 12345678 bytes, 404 rows, limit 500", "read # bytes, # rows, limit #"},
		{"exit status 2; SQLSTATE 42P01; code=1062", "exit status 2; SQLSTATE 42P01; code=1062"},
		{"error: 42 users are gone", "error: # users are gone"},
		{"99.5% of 3GiB in 12x", "#% of #B in #x"},
		{"a\tb\n  c\u202e\x00d", "a b c d"},
		{"\xff\xfe", ""},
		{"deadline exceeded: asynq: task snoozed for 1h0m3s: more", "deadline exceeded: more"},
		{"boom\nasynq: retry after 1.5s", "boom"},
		{"skip retry for the task", "skip retry for the task"},
		{"asynq: task snoozed for 3s", "asynq: task snoozed for ‹duration›"},
		{"cannot skip retry for the task of ada", "cannot skip retry for the task of ada"},
		{"cannot send\nexample.com/app/mail.Send\n\t/app/mail/send.go:12\nruntime.goexit\n\t/go/asm.s:1\nexample.com/app.run\n\t/app/run.go:9", "cannot send @ example.com/app/mail.Send < example.com/app.run"},
		{"goroutine 1 [running]:\nmain.f()\n\t/a.go:1\n", "@ main.f"},
		{"boom\n    at load (app.js:1:2)", "boom @ load"},
		{"Traceback (most recent call last):\n  File \"/a.py\", line 1, in f\n    x\nValidationError: 2 errors\n  field x is missing", "ValidationError: # errors field x is missing @ f"},
	} {
		got := errorkind.Of(c.text)
		if got != c.want {
			t.Errorf("of %q\n got %q\nwant %q", c.text, got, c.want)
		}
		check(t, got)
	}
}

func TestOfKeepsErrorsApart(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"HTTP 503", "HTTP 404"},
		{"user 1 is gone", "order 1 is gone"},
		{"https://a.example/x/1 fails", "https://b.example/x/1 fails"},
		{"https://a.example/x/1 fails", "https://a.example/y/1 fails"},
		{"boom\nmain.a()\n\t/x/a.go:1", "boom\nmain.b()\n\t/x/a.go:1"},
		{`unique constraint "a"`, `unique constraint "b"`},
	} {
		if a, b := errorkind.Of(c[0]), errorkind.Of(c[1]); a == b {
			t.Errorf("%q and %q are both %q", c[0], c[1], a)
		}
	}
}

func TestLongTexts(t *testing.T) {
	t.Parallel()
	frames := "\n\ngoroutine 1 [running]:" + strings.Repeat("\nexample.com/"+strings.Repeat("long/", 60)+"main.f()\n\t/a.go:1", 9)
	for _, part := range []string{"x", "word ", "7 ", "‹", "ä", "\"q\" ", "https://a/b/", "a @ ", "/", "eyJ", "skip retry for the task: "} {
		text := strings.Repeat(part, 100_000/len(part))
		check(t, errorkind.Of(text))
		check(t, errorkind.Of(text+frames))
		check(t, errorkind.Of("boom"+frames+text))
	}
}

// Parts of words in any order make no text whose kind is not one.
func TestRandomTexts(t *testing.T) {
	t.Parallel()
	parts := []string{
		"1", "42", "‹id›", "#", "‹time›", " ", ": ", "'", "\"", "@", " @ ", "a", "deadbeef", "10.0.0.1", ":80", "https://", "h.x", "/", "v1", "?", "=",
		"-", "_", ".", ",", "(", ")", "status", "constraint", "12:30", "2026-01-02", "2026-01-02T12:30:00.5Z", "3ms", "%", "\\", "x=", "GET ", "{", "msg",
		"…", "‹", "eyJ", "abcdefgh1A2b3C4d5", "\n", "503", "Error", "skip retry for the task", "::1", "[", "]", "1,000", "\tat a.b(", "main.f()\n\t/a.go:1\n",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		var text strings.Builder
		for range 1 + random.IntN(8) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		check(t, errorkind.Of(text.String()))
	}
}

func FuzzOf(f *testing.F) {
	for _, g := range corpus(f) {
		f.Add(g.texts[0])
	}
	for _, s := range []string{"a @ b", "‹id›-‹time› ‹time›", "x: skip retry for the task: y", "'\"`“”", "\"a\":\"b\\\"c\"", "#0 a(1): b(", "1,000.5", "::1", "constraint \"A\x87\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { check(t, errorkind.Of(s)) })
}

func BenchmarkOf(b *testing.B) {
	for name, text := range map[string]string{
		"short": "dial tcp 10.0.0.3:6379: connect: connection refused",
		"long":  "smtp: 421 service not available, closing transmission channel to mx7.example.com after 1m30s of 10.0.0.3:6379",
		"kind":  "user # is gone",
		"url":   "POST https://hooks.initech.example/v1/customers/cus_9s8XZ41kLmQ7aB/events?key=hunter2: 503 Service Unavailable",
		"stack": "panic: boom 7\n\ngoroutine 12 [running]:\n" + strings.Repeat("main.resize.func1(0xc0001, 0x3)\n\t/app/main.go:42 +0x1d\n", 20),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				errorkind.Of(text)
			}
		})
	}
}

// A server computes the kinds of failed attempts: one allocation is the kind itself.
func TestAllocations(t *testing.T) {
	most := 2.0
	if redistest.Race { // the race detector allocates as well
		most = 6 // 5 were seen, with go1.27
	}
	for _, g := range corpus(t) {
		text := g.texts[0]
		if n := testing.AllocsPerRun(10, func() { errorkind.Of(text) }); n > most {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
}
