package hosted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rule says which values are let through. It needs a Pattern or Allowed.
type Rule struct {
	// Pattern is a regular expression that the whole value matches.
	Pattern string

	// Allowed are the only values.
	Allowed []string

	// MaxLength of the value in bytes. Default: 1,024.
	MaxLength int

	// AllowDash lets values begin with "-", which most programs take for an option.
	AllowDash bool
}

// Param is a named value.
type Param struct {
	Rule

	Name string

	// Flag goes in front of the value: as an argument of its own ("--format"), or as the beginning of the same one if it ends in "="
	// ("--format="). Values without a flag come last, in the order of the params.
	Flag string

	// Required has tasks without the value archived.
	Required bool
}

// List are values without names.
type List struct {
	Rule

	// Max is how many there may be. Default: 32.
	Max int
}

func (r *Rule) check(p *problems, at string) {
	if r.Pattern == "" && len(r.Allowed) == 0 {
		p.add(at+"pattern", "neither pattern nor allowed says what is let through: a value could name any file, or be anything else that the program minds")
	}
	if _, err := compile(r.Pattern); err != nil {
		p.add(at+"pattern", "it is no regular expression: %v", err)
	}
	if r.MaxLength < 0 || r.MaxLength > maxArgument {
		p.add(at+"max_length", "it must be from 1 to %d", maxArgument)
	}
	for _, value := range r.Allowed {
		if strings.ContainsRune(value, 0) {
			p.add(at+"allowed", "a value contains a NUL byte, which ends an argument")
		}
	}
}

// compile makes an expression that matches only whole values.
func compile(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // before the brackets, which could close one of its own
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// gate is a Rule at work.
type gate struct {
	Rule

	whole *regexp.Regexp // nil: none
}

func newGate(r Rule) gate {
	g := gate{Rule: r}
	if r.Pattern != "" {
		g.whole, _ = compile(r.Pattern) // check has passed it
	}
	g.MaxLength = or(g.MaxLength, 1024)
	return g
}

// admit tells why a value is not let through. The value itself is not told: it may be long, or a secret.
func (g *gate) admit(value string) error {
	switch {
	case len(value) > g.MaxLength:
		return fmt.Errorf("it has %d bytes: at most %d are let through", len(value), g.MaxLength)
	case strings.ContainsRune(value, 0):
		return errors.New("it contains a NUL byte")
	case strings.HasPrefix(value, "-") && !g.AllowDash:
		return errors.New(`it begins with "-"`)
	case len(g.Allowed) > 0 && !slices.Contains(g.Allowed, value):
		return errors.New("it is not among the allowed values")
	case g.whole != nil && !g.whole.MatchString(value):
		return errors.New("it does not match the pattern")
	}
	return nil
}

// maxArgumentsPayload is the longest payload that arguments are read from, in bytes.
const maxArgumentsPayload = 1 << 20

// arguments makes the arguments of a payload.
func (c *command) arguments(payload []byte) ([]string, error) {
	args := slices.Clone(c.Args)
	if c.List == nil && len(c.Params) == 0 {
		return args, nil
	}
	if len(payload) > maxArgumentsPayload {
		return nil, fmt.Errorf("the payload has %d bytes: at most %d may hold arguments", len(payload), maxArgumentsPayload)
	}
	values, err := object(payload)
	if err != nil {
		return nil, err
	}
	var last []string
	if c.List != nil {
		last, err = c.fromList(values)
	} else {
		args, last, err = c.fromParams(args, values)
	}
	if err != nil {
		return nil, err
	}
	if c.Separator {
		args = append(args, "--")
	}
	return append(args, last...), nil
}

// object reads a payload that is a JSON object. None at all, and null, are an empty one.
func object(payload []byte) (map[string]any, error) {
	if !utf8.Valid(payload) {
		return nil, errors.New("the payload is not UTF-8")
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var values map[string]any
	if err := dec.Decode(&values); err != nil {
		return nil, errors.New("the payload is no JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the payload goes on after its JSON object")
	}
	return values, nil
}

// text is the text of a single value.
func text(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	default:
		return "", errors.New("it is neither a string nor a number, true or false")
	}
}

func (c *command) fromList(values map[string]any) ([]string, error) {
	for key := range values {
		if key != "args" {
			return nil, fmt.Errorf("the payload has the key %.50q: only \"args\" is known", key)
		}
	}
	given, ok := values["args"]
	if !ok || given == nil {
		return nil, nil
	}
	list, ok := given.([]any)
	if !ok {
		return nil, errors.New("args: it is no list")
	}
	if most := or(c.List.Max, 32); len(list) > most {
		return nil, fmt.Errorf("args: there are %d: at most %d are let through", len(list), most)
	}
	var args []string
	for i, value := range list {
		arg, err := text(value)
		if err == nil {
			err = c.list.admit(arg)
		}
		if err != nil {
			return nil, fmt.Errorf("args[%d]: %w", i, err)
		}
		args = append(args, arg)
	}
	return args, nil
}

func (c *command) fromParams(args []string, values map[string]any) (flagged, last []string, err error) {
	flagged = args
	for i := range c.Params {
		param := &c.Params[i]
		value, ok := values[param.Name]
		delete(values, param.Name)
		if !ok || value == nil {
			if param.Required {
				return nil, nil, fmt.Errorf("%s: it is missing in the payload", param.Name)
			}
			continue
		}
		arg, err := text(value)
		if err == nil {
			err = c.params[i].admit(arg)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", param.Name, err)
		}
		switch {
		case param.Flag == "":
			last = append(last, arg)
		case strings.HasSuffix(param.Flag, "="):
			flagged = append(flagged, param.Flag+arg)
		default:
			flagged = append(flagged, param.Flag, arg)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		return nil, nil, fmt.Errorf("the payload has the key %.50q, which is no param", key)
	}
	return flagged, last, nil
}
