package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of the parser. They keep programs that generate filters from exhausting the stack.
const (
	maxText  = 16 << 10
	maxDepth = 100
)

// SyntaxError describes an error in a filter, its position, and the correction.
type SyntaxError struct {
	Text string // the filter
	At   int    // position of the error in Text, in bytes
	Msg  string
}

// Error returns the message with the position, in characters from 1.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("filter: at character %d: %s", utf8.RuneCountInString(e.Text[:e.At])+1, e.Msg)
}

// Pointer returns two lines: the filter, and a mark below the position of the error.
func (e *SyntaxError) Pointer() string {
	line := func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}
	return strings.Map(line, e.Text) + "\n" + strings.Repeat(" ", utf8.RuneCountInString(e.Text[:e.At])) + "^"
}

// parser is a recursive-descent parser without backtracking.
type parser struct {
	text  string
	at    int
	depth int

	// compare makes a term of a field, or returns a message.
	compare func(name, op string, v *value, at int) (n node, msg string)
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{Text: p.text, At: min(at, len(p.text)), Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) parse() (node, error) {
	if len(p.text) > maxText {
		return nil, p.fail(0, "longer than %d bytes", maxText)
	}
	if !utf8.ValidString(p.text) {
		return nil, p.fail(strings.IndexFunc(p.text, func(r rune) bool { return r == utf8.RuneError }), `not UTF-8: write bytes as "\xff"`)
	}
	if p.space(); p.at == len(p.text) {
		return nil, nil
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.fail(p.at, `unmatched ")": remove it, or quote it`)
	}
	return n, nil
}

func (p *parser) space() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsSpace(r) {
			return
		}
		p.at += n
	}
}

// keyword consumes a word in capitals that stands alone.
func (p *parser) keyword(word string) bool {
	rest, ok := strings.CutPrefix(p.text[p.at:], word)
	if !ok {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(rest); rest != "" && !unicode.IsSpace(r) && r != '(' && r != ')' {
		return false
	}
	p.at += len(word)
	p.space()
	return true
}

func (p *parser) or() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.at, "nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	var parts []node
	for {
		n, err := p.and()
		if err != nil {
			return nil, err
		}
		if inner, ok := n.(*or); ok {
			parts = append(parts, inner.parts...)
		} else {
			parts = append(parts, n)
		}
		if !p.keyword("OR") {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return &or{parts}, nil
}

func (p *parser) and() (node, error) {
	var parts []node
	for {
		n, err := p.not()
		if err != nil {
			return nil, err
		}
		if inner, ok := n.(*and); ok {
			parts = append(parts, inner.parts...)
		} else {
			parts = append(parts, n)
		}
		if p.keyword("AND") {
			continue
		}
		if p.at == len(p.text) || p.text[p.at] == ')' || p.peekOr() {
			return all(parts), nil
		}
	}
}

func (p *parser) peekOr() bool {
	at := p.at
	defer func() { p.at = at }()
	return p.keyword("OR")
}

func (p *parser) not() (node, error) {
	negated := false
	for p.at < len(p.text) {
		switch {
		case p.keyword("NOT"):
		case p.text[p.at] == '-':
			p.at++
			if p.at < len(p.text) && p.text[p.at] != '(' && p.ended() {
				return nil, p.fail(p.at, `missing term after "-": remove the space, as in -type:report`)
			}
		default:
			n, err := p.atom()
			if err != nil {
				return nil, err
			}
			return negate(n, negated), nil
		}
		negated = !negated
	}
	return nil, p.fail(p.at, `missing term, such as type:email:* or error:"timed out"`)
}

func negate(n node, negated bool) node {
	if !negated {
		return n
	}
	if inner, ok := n.(*not); ok {
		return inner.of
	}
	return &not{n}
}

func (p *parser) atom() (node, error) {
	switch {
	case p.text[p.at] == '(':
		open := p.at
		p.at++
		p.space()
		n, err := p.or()
		if err != nil {
			return nil, err
		}
		if p.at == len(p.text) {
			return nil, p.fail(open, `unclosed "(": add a ")" after its terms`)
		}
		p.at++
		p.space()
		return n, nil
	case p.text[p.at] == ')':
		return nil, p.fail(p.at, `missing term before ")"`)
	}
	for _, word := range []string{"AND", "OR"} {
		at := p.at
		if p.keyword(word) {
			return nil, p.fail(at, "%s needs a term on both sides; for the word itself write %q", word, word)
		}
	}
	return p.term()
}

// term parses a comparison of a field, or a text to search in several fields.
func (p *parser) term() (node, error) {
	start := p.at
	for p.at < len(p.text) && (p.text[p.at] >= 'a' && p.text[p.at] <= 'z' || p.text[p.at] == '_') {
		p.at++
	}
	name, op := p.text[start:p.at], p.operator()
	if name == "" || op == "" {
		p.at = start
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		return newAnywhere(v), nil
	}
	valueAt := p.at
	if p.ended() {
		return nil, p.fail(valueAt, `missing value; for an empty one write %s:""`, name)
	}
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	n, msg := p.compare(name, op, v, start)
	if msg != "" {
		return nil, p.fail(start, "%s", msg)
	}
	return n, nil
}

// operator consumes a comparison operator; it returns "" if there is none.
func (p *parser) operator() string {
	for _, op := range []string{">=", "<=", "!=", ":", "=", ">", "<"} {
		if strings.HasPrefix(p.text[p.at:], op) {
			p.at += len(op)
			return op
		}
	}
	return ""
}

// ended reports whether no value can start here.
func (p *parser) ended() bool {
	if p.at == len(p.text) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return unicode.IsSpace(r) || r == '(' || r == ')'
}

// value parses a word up to the next space or parenthesis. Parts of it may be quoted.
func (p *parser) value() (*value, error) {
	v := &value{}
	for !p.ended() {
		if p.text[p.at] != '"' {
			_, n := utf8.DecodeRuneInString(p.text[p.at:])
			v.add(p.text[p.at:p.at+n], false)
			p.at += n
			continue
		}
		quoted, n := unquote(p.text[p.at:])
		if n == 0 {
			return nil, p.fail(p.at, `unclosed quote: add a " after the text; inside it write \" for a quote and \\ for a backslash`)
		}
		v.add(quoted, true)
		p.at += n
	}
	p.space()
	return v, nil
}
