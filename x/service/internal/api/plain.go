package api

import (
	"bytes"
	"strconv"
)

// maxDepth is how deep JSON may be nested that goes into an answer as it is. jq 1.6 reads 256 levels, PHP 512 and Python about 1,000.
const maxDepth = 200

// plain reports whether every client can read a value that is valid JSON. One that cannot would not get a word of the whole answer: it
// would lose the other tasks in it as well, and be given the same task again. Not everywhere are read: values that are nested deeply,
// halves of surrogate pairs, and, as names of properties in PHP, names that begin with NUL.
func plain(data []byte) bool {
	if !bytes.Contains(data, []byte(`\u`)) && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) <= maxDepth {
		return true // nearly all
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

// codeUnit reads an escape such as \u00e4.
func codeUnit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n), err == nil
}
