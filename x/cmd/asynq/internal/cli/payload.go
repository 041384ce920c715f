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

	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// textOrBase64 returns a payload or a result as text if it is UTF-8, and otherwise in base64. Both
// are lossless.
func textOrBase64(b []byte) (text, encoded string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// isText reports whether b is readable text.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	return bytes.IndexFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }) < 0
}

// brief returns a payload in one line.
func brief(b []byte) string {
	const most = 4 * cellWidth
	if len(b) > most {
		b = b[:most]
		for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
			b = b[:len(b)-1] // a truncated character
		}
	}
	if isText(b) {
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}

// pretty formats a payload for reading: auto, json, text, hex or base64. JSON numbers keep all
// their digits.
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
			return "", fmt.Errorf("not valid JSON: %w", err)
		}
		return string(out.EscapeJSON(pretty.Bytes())), nil
	case "text":
		return out.Escape(string(b)), nil
	case "hex":
		return strings.TrimRight(hex.Dump(b), "\n"), nil
	case "base64":
		return base64.StdEncoding.EncodeToString(b), nil
	}
	return "", usage("unknown format %q: use auto, json, text, hex or base64", format)
}

func indent(s, by string) string { return strings.ReplaceAll(s, "\n", "\n"+by) }

// maxPayload is the maximum size of a value in Redis.
const maxPayload = 512 << 20

// readPayload reads the payload that a flag specifies: text, @FILE, or - for standard input. @@x
// stands for the text @x.
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
		err = fmt.Errorf("the payload exceeds the 512 MB limit of Redis")
	}
	return b, err
}
