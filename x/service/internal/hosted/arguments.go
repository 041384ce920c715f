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

// Rule restricts the values of an argument. Pattern or Allowed is required.
type Rule struct {
	// Pattern is a regular expression that must match the whole value.
	Pattern string

	// Allowed lists the permitted values.
	Allowed []string

	// MaxLength is the maximum length in bytes. The default is 1,024.
	MaxLength int

	// AllowDash permits values that begin with "-", which most programs parse as options.
	AllowDash bool
}

// Param is a named argument.
type Param struct {
	Rule

	Name string

	// Flag precedes the value: as a separate argument ("--format"), or as a prefix of the same
	// argument if it ends in "=" ("--format="). Values without a flag come last, in the order of
	// Params.
	Flag string

	// Required archives tasks that lack the value.
	Required bool
}

// List holds positional arguments.
type List struct {
	Rule

	// Max is the maximum number of values. The default is 32.
	Max int
}

func (r *Rule) check(p *problems, at string) {
	if r.Pattern == "" && len(r.Allowed) == 0 {
		p.add(at+"pattern", "pattern or allowed is required: otherwise tasks could pass any value, such as the path of any file")
	}
	if _, err := compile(r.Pattern); err != nil {
		p.add(at+"pattern", "not a regular expression: %v", err)
	}
	if r.MaxLength < 0 || r.MaxLength > maxArgument {
		p.add(at+"max_length", "must be from 1 to %d", maxArgument)
	}
	for _, value := range r.Allowed {
		if strings.ContainsRune(value, 0) {
			p.add(at+"allowed", "must not contain NUL bytes")
		}
	}
}

// compile returns an expression that matches only whole values.
func compile(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // without the added parentheses, which could make it valid
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// gate enforces a Rule.
type gate struct {
	Rule

	whole *regexp.Regexp // nil without a pattern
}

func newGate(r Rule) gate {
	g := gate{Rule: r}
	if r.Pattern != "" {
		g.whole, _ = compile(r.Pattern) // validated by check
	}
	g.MaxLength = or(g.MaxLength, 1024)
	return g
}

// admit returns an error if a value is not permitted. The error does not contain the value, which
// may be long or secret.
func (g *gate) admit(value string) error {
	switch {
	case len(value) > g.MaxLength:
		return fmt.Errorf("%d bytes exceed the limit of %d", len(value), g.MaxLength)
	case strings.ContainsRune(value, 0):
		return errors.New("contains a NUL byte")
	case strings.HasPrefix(value, "-") && !g.AllowDash:
		return errors.New(`begins with "-"`)
	case len(g.Allowed) > 0 && !slices.Contains(g.Allowed, value):
		return errors.New("not an allowed value")
	case g.whole != nil && !g.whole.MatchString(value):
		return errors.New("does not match the pattern")
	}
	return nil
}

// maxArgumentsPayload is the maximum size in bytes of a payload that is parsed for arguments.
const maxArgumentsPayload = 1 << 20

// arguments returns the arguments of the program for a payload.
func (c *command) arguments(payload []byte) ([]string, error) {
	args := slices.Clone(c.Args)
	if c.List == nil && len(c.Params) == 0 {
		return args, nil
	}
	if len(payload) > maxArgumentsPayload {
		return nil, fmt.Errorf("the payload has %d bytes: the limit for arguments is %d", len(payload), maxArgumentsPayload)
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

// object parses a payload that is a JSON object. An empty payload and null are empty objects.
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
		return nil, errors.New("the payload is not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the payload has data after its JSON object")
	}
	return values, nil
}

// text returns the text of a scalar value.
func text(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	default:
		return "", errors.New("must be a string, number or boolean")
	}
}

func (c *command) fromList(values map[string]any) ([]string, error) {
	for key := range values {
		if key != "args" {
			return nil, fmt.Errorf("unknown key %.50q in the payload: only \"args\" is allowed", key)
		}
	}
	given, ok := values["args"]
	if !ok || given == nil {
		return nil, nil
	}
	list, ok := given.([]any)
	if !ok {
		return nil, errors.New("args: must be an array")
	}
	if most := or(c.List.Max, 32); len(list) > most {
		return nil, fmt.Errorf("args: %d values exceed the limit of %d", len(list), most)
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
				return nil, nil, fmt.Errorf("%s: missing in the payload", param.Name)
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
		return nil, nil, fmt.Errorf("unknown key %.50q in the payload", key)
	}
	return flagged, last, nil
}
