package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
)

// encoding/json accepts more than it should: field names in any case, duplicate fields, of which
// the last wins, and unpaired surrogates, which become U+FFFD. Two readers may interpret such a
// body differently, and two IDs may become one. strict finds them in one pass over a body that the
// decoder has accepted.

// shape describes a type for strict.
type shape struct {
	kind   shapeKind
	names  []string // of the fields of an object
	fields []*shape
	elem   *shape // of an array or a map
}

type shapeKind int

const (
	anyKind    shapeKind = iota // raw text, a number, a boolean or null
	stringKind                  // a decoded string
	structKind
	mapKind
	listKind
)

var shapes sync.Map // reflect.Type → *shape

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := makeShape(t)
	shapes.Store(t, s)
	return s
}

func makeShape(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := new(shape)
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
	case t.Kind() == reflect.String:
		s.kind = stringKind
	case t.Kind() == reflect.Slice:
		s.kind, s.elem = listKind, makeShape(t.Elem())
	case t.Kind() == reflect.Map:
		s.kind, s.elem = mapKind, makeShape(t.Elem())
	case t.Kind() == reflect.Struct:
		s.kind = structKind
		for _, field := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			s.names, s.fields = append(s.names, name), append(s.fields, makeShape(field.Type))
		}
	}
	return s
}

// strict finds what the decoder should not accept. The text must be valid JSON.
type strict struct {
	text  []byte
	at    int
	found *finder // if nil, strict stops at the first fault
	wrong bool
}

// isStrict reports whether a decoded body has no faults.
func isStrict(text []byte, t reflect.Type) bool {
	s := strict{text: text}
	s.value(shapeOf(t), "")
	return !s.wrong
}

func (s *strict) fault(pointer, detail string) {
	s.wrong = true
	if s.found != nil {
		s.found.add(pointer, detail)
	}
}

// done reports whether the result is known.
func (s *strict) done() bool { return s.wrong && s.found == nil }

func (s *strict) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// below returns the pointer of a member. Without a finder, it returns "".
func (s *strict) below(pointer, name string) string {
	if s.found == nil {
		return ""
	}
	return pointer + "/" + escapePointer(name)
}

// value checks the next value and skips it.
func (s *strict) value(as *shape, pointer string) {
	s.space()
	c := s.text[s.at]
	switch {
	case c == '"' && as.kind == stringKind:
		if !whole(s.str()) {
			s.fault(pointer, `contains an unpaired surrogate such as \ud800`)
		}
	case c == '{' && (as.kind == structKind || as.kind == mapKind):
		s.object(as, pointer)
	case c == '[' && as.kind == listKind && as.elem.kind != anyKind:
		s.at++
		for i := 0; !s.done() && s.more(']'); i++ {
			below := ""
			if s.found != nil {
				below = pointer + "/" + strconv.Itoa(i)
			}
			s.value(as.elem, below)
		}
	default:
		s.skip()
	}
}

// more advances to the next member or element. At the end it skips the bracket and returns false.
func (s *strict) more(end byte) bool {
	s.space()
	if s.text[s.at] == ',' {
		s.at++
		s.space()
	}
	if s.text[s.at] == end {
		s.at++
		return false
	}
	return true
}

func (s *strict) object(as *shape, pointer string) {
	var fields uint64 // bit set of the fields found
	var names map[string]bool
	s.at++
	for !s.done() && s.more('}') {
		raw := s.str()
		s.space()
		s.at++ // the colon
		member, twice := as.elem, false
		if as.kind == structKind {
			i := as.find(raw)
			if i < 0 {
				s.fault(s.below(pointer, unquote(raw)), "unknown field")
				s.skip()
				continue
			}
			member, twice = as.fields[i], fields&(1<<i) != 0
			fields |= 1 << i
		} else {
			if !whole(raw) {
				s.fault(pointer, `a name contains an unpaired surrogate such as \ud800`)
			}
			if names == nil {
				names = make(map[string]bool)
			}
			name := unquote(raw)
			twice = names[name]
			names[name] = true
		}
		below := ""
		if s.found != nil {
			below = s.below(pointer, unquote(raw))
		}
		if twice {
			s.fault(below, "duplicate field: remove one")
		}
		s.value(member, below)
	}
}

// find returns the index of the field with a quoted name; -1 if there is none.
func (as *shape) find(raw []byte) int {
	for i, name := range as.names {
		if string(raw) == name {
			return i
		}
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return -1
	}
	name := unquote(raw)
	for i := range as.names {
		if as.names[i] == name {
			return i
		}
	}
	return -1
}

// unquote decodes a string without its quotes.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var text string
	_ = json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) // valid JSON
	return text
}

// str skips the next string and returns the text between its quotes.
func (s *strict) str() []byte {
	begin := s.at + 1
	for i := begin; ; {
		n := bytes.IndexByte(s.text[i:], '"')
		i += n
		escapes := 0
		for s.text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.at = i + 1
			return s.text[begin:i]
		}
		i++
	}
}

// skip skips the next value.
func (s *strict) skip() {
	s.space()
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.str()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return // after a number, a boolean or null
			}
			if depth--; depth == 0 {
				s.at++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
		s.at++
	}
}

// whole reports whether the text between the quotes of a string has no unpaired surrogate.
func whole(raw []byte) bool {
	for i := 0; ; {
		n := bytes.IndexByte(raw[i:], '\\')
		if n < 0 {
			return true
		}
		i += n
		r, escaped := codeUnit(raw[i:])
		switch {
		case !escaped:
			i += 2
			continue
		case utf16.IsSurrogate(r):
			low, _ := codeUnit(raw[i+6:])
			if utf16.DecodeRune(r, low) == '\uFFFD' {
				return false
			}
			i += 6
		}
		i += 6
	}
}
