package show_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/asynq-go/asynq/x/web/internal/show"
)

func TestFormOf(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]show.Form{
		"":                       show.Nothing,
		`{"a":1}`:                show.JSON,
		" 12345678901234567890 ": show.JSON, //nolint:gocritic // The spaces are what is tested.
		`{"a":1`:                 show.Text,
		"two\nlines":             show.Text,
		"\x1b[31mred":            show.Text,
		"a\x00b":                 show.Hex,
		"\xff\xfe":               show.Hex,
		"\x08\x96\x01\x12\x07":   show.Hex,
	} {
		if got := show.FormOf([]byte(data)); got != want {
			t.Errorf("%q is %s, want %s", data, got, want)
		}
	}
}

func join(list []show.Token) string {
	var b strings.Builder
	for _, token := range list {
		b.WriteString(token.Text)
	}
	return b.String()
}

func TestIndentKeepsWhatIsWritten(t *testing.T) {
	t.Parallel()
	const data = `{"id":12345678901234567890,"x":1.10,"e":1E400,"a":[ ],"o":{ },"s":"a\"b,:{}","x":-0,"l":[true,null,{"d":[1]}]}`
	list, more := show.Indent([]byte(data), 1<<20)
	got := join(list)
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(data), "", "  "); err != nil {
		t.Fatal(err)
	}
	if got != want.String() || more {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
	classes := map[string]string{}
	for _, token := range list {
		classes[token.Text] = token.Class
	}
	for text, class := range map[string]string{`"id"`: "key", "12345678901234567890": "num", `"a\"b,:{}"`: "str", "true": "lit", "1E400": "num"} {
		if classes[text] != class {
			t.Errorf("%s is %q, want %q", text, classes[text], class)
		}
	}
}

func TestIndentIsBounded(t *testing.T) {
	t.Parallel()
	deep := []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))
	if list, more := show.Indent(deep, 10<<20); more || len(join(list)) > 3<<20 {
		t.Errorf("%d bytes, more: %v", len(join(list)), more)
	}
	long := []byte(`["` + strings.Repeat("ä", 10_000) + `"]`)
	list, more := show.Indent(long, 1001)
	if got := join(list); !more || len(got) > 1001 || len(got) < 990 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, more: %v", len(got), more)
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\tb\nc":         "a\tb\nc",
		"a\x00\x1b[31m\r": "a␀␛[31m␍",
		"\u202egpj.exe":   `\u202egpj.exe`,
		"\u2066x\u2069":   `\u2066x\u2069`,
		"\ufeffx\u200b":   `\ufeffx\u200b`,
		"\U000e0041":      `\U000e0041`,
		"\xffa":           `\xffa`,
		"👩‍🔬 é 日本":        "👩‍🔬 é 日本",
		"\x7f\u0085":      `␡\u0085`,
	} {
		if got := show.Visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	list, more := show.VisibleTokens([]byte("ab\x00cd"), 100)
	if more || len(list) != 3 || list[1] != (show.Token{Class: "odd", Text: "␀"}) {
		t.Errorf("%q", list)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data string
		n    int
		want string
	}{
		{"", 10, ""},
		{"{\n  \"a\":  1\n}", 40, `{ "a": 1 }`},
		{"abcdefghij", 10, "abcdefghij"},
		{"abcdefghijk", 10, "abcdefghij…"},
		{strings.Repeat("日", 500), 3, "日日日…"},
		{"\xff\x00\x01", 10, "0xff0001"},
		{strings.Repeat(" ", 500), 4, "…"},
	} {
		if got := show.Excerpt([]byte(c.data), c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.data, c.n, got, c.want)
		}
	}
	if got := show.Clip("first\nsecond "+strings.Repeat("x", 5000), 12); got != "first second…" {
		t.Errorf("%q", got)
	}
}

func TestDump(t *testing.T) {
	t.Parallel()
	got, more := show.Dump([]byte("hello\x00\xff, world and more"), 16)
	if want := "00000000  68 65 6c 6c 6f 00 ff 2c  20 77 6f 72 6c 64 20 61  |hello.., world a|\n"; got != want || !more {
		t.Errorf("%q, more: %v", got, more)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c\\\"\u202e"}],"a":2}`))
	f.Add([]byte("\xff\xf0\x9f\x91"))
	f.Add([]byte(strings.Repeat("日本", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 300
		for name, shown := range map[string]func() ([]show.Token, bool){
			"visible": func() ([]show.Token, bool) { return show.VisibleTokens(data, limit) },
			"json": func() ([]show.Token, bool) {
				if !json.Valid(data) {
					return nil, false
				}
				return show.Indent(data, limit)
			},
		} {
			list, _ := shown()
			text := join(list)
			if len(text) > limit || !utf8.ValidString(text) || hidden(text) {
				t.Fatalf("%s of %q: %q", name, data, text)
			}
		}
		if json.Valid(data) && utf8.Valid(data) && show.Visible(string(data)) == string(data) {
			list, _ := show.Indent(data, 1<<20)
			var a, b bytes.Buffer
			if json.Compact(&a, data) != nil || json.Compact(&b, []byte(join(list))) != nil || a.String() != b.String() {
				t.Fatalf("%q becomes %q", data, join(list))
			}
		}
		for _, text := range []string{show.Excerpt(data, 30), show.Clip(string(data), 30)} {
			if utf8.RuneCountInString(text) > 31 || !utf8.ValidString(text) || hidden(text) || strings.Contains(text, "\n") {
				t.Fatalf("%q in short: %q", data, text)
			}
		}
	})
}

// hidden reports whether a text has invisible characters.
func hidden(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069)
	})
}
