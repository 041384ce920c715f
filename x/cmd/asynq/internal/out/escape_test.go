package out

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// textRow is a row of untrusted texts.
type textRow struct {
	Text string            `json:"text"`
	Map  map[string]string `json:"map"`
}

// Runes that YAML forbids or treats as line breaks, and runes that could control a terminal, pass
// unchanged through YAML and JSON at any position of a text, and are escaped in the output.
func TestEncodeHostileRunes(t *testing.T) {
	t.Parallel()
	var runes []rune
	for r := range rune(0xa1) {
		runes = append(runes, r)
	}
	runes = append(runes, 0xad, 0x200b, 0x200e, 0x2028, 0x2029, 0x202e, 0x2066, 0xd7ff, 0xe000, 0xfdd0, 0xfeff, 0xfffd, 0xfffe, 0xffff,
		0x1f600, 0x1fffe, 0xe0001, 0x10fffe, 0x10ffff)
	var texts []string
	for _, r := range runes {
		s := string(r)
		texts = append(texts, s, s+s, "a"+s, s+"b", "a"+s+"b", "a\n"+s+"\nb\n", " "+s+" ", "\t"+s, `"`+s+`\`, s+": "+s, "- "+s+" # "+s,
			strings.Repeat("long ", 30)+s)
	}
	roundTrip(t, texts)
}

// All characters of all planes with assigned characters pass unchanged through YAML and JSON.
func TestEncodeAllRunes(t *testing.T) {
	t.Parallel()
	var texts []string
	for begin := rune(0); begin <= utf8.MaxRune; begin += 512 {
		if plane := begin >> 16; plane > 1 && plane != 14 {
			continue // ideographs, private use, or nothing
		}
		var b strings.Builder
		for r := begin; r < begin+512; r++ {
			if utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
		texts = append(texts, b.String())
	}
	roundTrip(t, texts)
}

// Bytes that are not UTF-8 become U+FFFD, as in JSON, without errors.
func TestEncodeInvalidUTF8(t *testing.T) {
	t.Parallel()
	roundTrip(t, []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80\x9b[31m", "\x1b\xff\n"})
}

func roundTrip(t *testing.T, texts []string) {
	t.Helper()
	rows := make([]textRow, len(texts))
	for n, text := range texts {
		rows[n] = textRow{text, map[string]string{text: text}}
	}
	for format, parse := range map[string]func([]byte, any) error{
		"yaml": yaml.Unmarshal, "json": json.Unmarshal,
		"ndjson": func(b []byte, v any) error {
			return json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSuffix(string(b), "\n"), "\n", ",")+"]"), v)
		},
	} {
		var o Options
		if err := o.Parse(format); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err := List(&b, o, nil, func(yield func(textRow, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		if at := strings.IndexFunc(b.String(), unsafeInText); at >= 0 {
			t.Errorf("%s contains %q", format, b.String()[at:min(at+20, b.Len())])
		}
		var got []textRow
		if err := parse([]byte(b.String()), &got); err != nil || len(got) != len(rows) {
			t.Errorf("%s: %d rows, %v; want %d", format, len(got), err, len(rows))
			continue
		}
		for n, text := range texts {
			want := strings.ToValidUTF8(text, "\ufffd")
			if !utf8.ValidString(text) {
				want = string([]rune(text)) // one U+FFFD for each byte
			}
			if got[n].Text != want || got[n].Map[want] != want {
				t.Fatalf("%s: %q was read as %+q", format, want, got[n])
			}
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"mail": "mail", "a b": "a b", "grüß": "grüß", "": `""`, "a\nb": `"a\nb"`, `"a"`: `"\"a\""`, `a"b`: `a"b`,
		"\x1b[2J": `"\x1b[2J"`, "a\u2028": `"a\u2028"`, "\xff": `"\xff"`, "\u202e": `"\u202e"`,
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
}

// A template writes no unsafe characters to a terminal, and unmodified values elsewhere.
func TestTemplateOnTerminal(t *testing.T) {
	t.Parallel()
	const text = "\x1b[2J\u202e\u009b\n\t\xff"
	for terminal, want := range map[bool]string{true: `\x1b[2J\u202e\u009b` + "\n\t\ufffd\n", false: "\x1b[2J\u202e\u009b\n\t\ufffd\n"} {
		o := Options{Terminal: terminal}
		if err := o.Parse("template={{.text}}"); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := One(&b, o, textRow{Text: text}, nil); err != nil || b.String() != want {
			t.Errorf("on a terminal %v: %q, %v; want %q", terminal, b.String(), err, want)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext": "plain\n\ttext", "a\r\x00\x7f": `a\r\x00\x7f`, "\u0085\u2028\ufeff": `\u0085\u2028\ufeff`, "a\xffb\x9b": `a\xffb\x9b`,
		"\U000e0001": `\U000e0001`, "'\"\\": "'\"\\",
	} {
		if got := Escape(in); got != want || !IsPlain([]byte(got)) || IsPlain([]byte(in)) != (in == want) {
			t.Errorf("Escape(%q) = %s, want %s; IsPlain is %v", in, got, want, IsPlain([]byte(in)))
		}
	}
}
