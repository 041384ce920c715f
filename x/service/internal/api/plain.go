package api

import (
	"bytes"
	"strconv"
)

// maxDepth is the maximum nesting of JSON that is embedded in a response as it is. jq 1.6 reads 256
// levels, PHP 512 and Python about 1,000.
const maxDepth = 200

// plain reports whether every client can read a valid JSON value. A client that cannot read one
// value fails to parse the whole response, loses the other tasks in it, and receives the same task
// again. Not portable are: deep nesting, unpaired surrogates, and, as property names in PHP, names
// that begin with NUL.
func plain(data []byte) bool {
	if !bytes.Contains(data, []byte(`\u`)) && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) <= maxDepth {
		return true // the common case
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '[', '{':
			if depth++; depth > maxDepth {
				return false
			}
		case ']', '}':
			depth--
		case '"':
			text := strict{text: data, at: i}
			raw := text.str()
			rest := bytes.TrimLeft(data[text.at:], " \t\r\n")
			if !whole(raw) || bytes.HasPrefix(raw, []byte(`\u0000`)) && bytes.HasPrefix(rest, []byte(":")) {
				return false
			}
			i = text.at - 1
		}
	}
	return true
}

// codeUnit decodes an escape such as \u00e4.
func codeUnit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}
