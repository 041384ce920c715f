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

// The decoder of encoding/json takes more than it should: names in any case, names that stand there twice, of which the last one counts,
// and halves of surrogate pairs, which become U+FFFD. Two readers of such a body could take it for different things, and two IDs become
// one. A shape finds them, in one pass over a body that the decoder has taken.

// shape is what strict knows of a type.
type shape struct {
	kind   shapeKind
	names  []string // of the fields of an object
	fields []*shape
	elem   *shape // of a list, and of an object with any names
}

type shapeKind int

const (
	anything   shapeKind = iota // its text is kept, or it is a number or the like
	stringKind                  // a string that the decoder has read
	structKind
	mapKind
	listKind
)

var shapes sync.Map // of reflect.Type to *shape

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

// strict looks for what the decoder should not take. The text is correct as JSON.
type strict struct {
	text  []byte
	at    int
	found *finder // nil: the first fault is enough
	wrong bool
}

// isStrict reports whether a body that the decoder has taken means just that.
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

// done reports whether nothing more needs to be known.
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

// below is a place below another one. Nobody needs it before there is a fault.
func (s *strict) below(pointer, name string) string {
	if s.found == nil {
		return ""
	}
	return pointer + "/" + escapePointer(name)
}

// value looks at the value that comes next, and goes behind it.
func (s *strict) value(as *shape, pointer string) {
	s.space()
	c := s.text[s.at]
	switch {
	case c == '"' && as.kind == stringKind:
		if !whole(s.str()) {
			s.fault(pointer, `this text has \ud800 or the like without its other half: such halves are no characters`)
		}
	case c == '{' && (as.kind == structKind || as.kind == mapKind):
		s.object(as, pointer)
	case c == '[' && as.kind == listKind && as.elem.kind != anything:
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

// more goes to the next member or element, or behind the end of them all.
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
	var fields uint64 // that were there
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
				s.fault(s.below(pointer, unquote(raw)), "there is no such field")
				s.skip()
				continue
			}
			member, twice = as.fields[i], fields&(1<<i) != 0
			fields |= 1 << i
		} else {
			if !whole(raw) {
				s.fault(pointer, `a name has \ud800 or the like without its other half: such halves are no characters`)
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
			s.fault(below, "this stands here twice: leave one out")
		}
		s.value(member, below)
	}
}

// find is the index of the field of a name, between its quotes; -1 if there is none.
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

// unquote is the text between quotes.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var text string
	_ = json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) // it is correct
	return text
}

// str goes behind the string that comes next, and returns what is between its quotes.
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

// skip goes behind the value that comes next.
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
				return // behind a number or the like
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

// whole reports whether a string, between its quotes, has no half of a surrogate pair.
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
