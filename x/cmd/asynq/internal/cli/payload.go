package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textOrBase64 is a payload or a result for programs: as text where it is text, else in base64. No byte is lost either way.
func textOrBase64(b []byte) (text, encoded string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// isText reports whether people can read it.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	return bytes.IndexFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }) < 0
}

// brief is a payload in one line.
func brief(b []byte) string {
	const most = 4 * cellWidth
	if len(b) > most {
		b = b[:most]
		for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
			b = b[:len(b)-1] // a character that was cut
		}
	}
	if isText(b) {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}

// pretty is a payload for people in a format: auto, json, text, hex or base64. Numbers of JSON keep all their digits.
func pretty(b []byte, format string) (string, error) {
	if format == "auto" {
		switch {
		case len(b) == 0:
			format = "text"
		case json.Valid(b):
			format = "json"
		case isText(b):
			format = "text"
		default:
			format = "hex"
		}
	}
	switch format {
	case "json":
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, b, "", "  "); err != nil {
			return "", fmt.Errorf("it is no JSON: %w", err)
		}
		return safe(pretty.String()), nil
	case "text":
		return safe(string(b)), nil
	case "hex":
		return strings.TrimRight(hex.Dump(b), "\n"), nil
	case "base64":
		return base64.StdEncoding.EncodeToString(b), nil
	}
	return "", usage("there is no format %q: use auto, json, text, hex or base64", format)
}

// safe replaces what a terminal would obey, but not line breaks and tabs.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

func indent(s, by string) string { return strings.ReplaceAll(s, "\n", "\n"+by) }

// maxPayload is how much Redis takes in one value.
const maxPayload = 512 << 20

// readPayload reads what a flag names: the text itself, @FILE, or - for standard input. A text that begins with @ is written @@….
func (a *app) readPayload(value string) ([]byte, error) {
	var from io.Reader
	switch {
	case value == "-":
		from = a.In
	case strings.HasPrefix(value, "@@"):
		return []byte(value[1:]), nil
	case strings.HasPrefix(value, "@"):
		f, err := os.Open(value[1:])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	default:
		return []byte(value), nil
	}
	b, err := io.ReadAll(io.LimitReader(from, maxPayload+1))
	if err == nil && len(b) > maxPayload {
		err = fmt.Errorf("the payload is larger than the 512 MB that Redis takes")
	}
	return b, err
}
