package config

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder reads values from the nodes of a file, and gathers what is wrong with them, so that one look tells everything.
type decoder struct {
	file     string
	dir      string // that relative paths begin at
	env      func(string) (string, bool)
	errs     []Issue
	warnings []Issue
	literal  []*yaml.Node        // secrets that stand in the file itself
	unread   map[*yaml.Node]bool // values that are none of their kind: whatever stands in for them is not judged as well
	values   int                 // that were read, those of aliases each time
}

// maxValues is how many values a file may have. A short file can have any number, by aliases of long lists.
const maxValues = 200_000

// count reports whether one more value is read, and tells once that there are too many.
func (d *decoder) count(n *yaml.Node) bool {
	if d.values++; d.values == maxValues+1 {
		d.wrong(n, "there are too many values, aliases counted as often as they are used: at most %d are read", maxValues)
	}
	return d.values <= maxValues
}

// fields are the keys of a mapping, and where their values go: pointers to what value knows, or a function of the node.
type fields map[string]any

// Other ways to read a value than what its type says.
type (
	secret struct{ to *string } // may come from the environment or a file, and is never told
	size   struct{ to *int64 }  // bytes, as in 64KiB
	bound  struct{ to any }     // zero stands for a default further on, and is refused: who writes it means something else
	path   struct{ to *string } // of a file, relative to this one
)

// wrong tells what is wrong with a value, unless it could not even be read: that was told.
func (d *decoder) wrong(n *yaml.Node, format string, args ...any) {
	if !d.unread[n] {
		d.errs = append(d.errs, place(d.file, n, fmt.Sprintf(format, args...)))
	}
}

// misread tells why a value cannot be read.
func (d *decoder) misread(n *yaml.Node, format string, args ...any) {
	d.wrong(n, format, args...)
	if d.unread == nil {
		d.unread = make(map[*yaml.Node]bool)
	}
	d.unread[n] = true
}

func (d *decoder) warn(n *yaml.Node, format string, args ...any) {
	d.warnings = append(d.warnings, place(d.file, n, fmt.Sprintf(format, args...)))
}

// isWrong reports whether an error was told of a node.
func (d *decoder) isWrong(n *yaml.Node) bool {
	return slices.ContainsFunc(d.errs, func(i Issue) bool { return i.Line == n.Line && i.Column == n.Column })
}

// follow returns what an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	for range 10 {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// each calls do for every key of a mapping, with the nodes of the key and of its value. No value at all is an empty mapping.
func (d *decoder) each(n *yaml.Node, do func(key string, at, value *yaml.Node)) {
	n = follow(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.misread(n, "here must be keys with values, not %s", kindOf(n))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := n.Content[i], follow(n.Content[i+1])
		if !d.count(at) {
			return
		}
		switch line, twice := seen[at.Value]; {
		case at.Kind != yaml.ScalarNode:
			d.wrong(at, "a key must be text, not %s", kindOf(at))
		case at.Tag == "!!merge":
			d.wrong(at, "<< is not understood here: write the keys out")
		case twice:
			d.wrong(at, "%q is in line %d already: leave one out", at.Value, line)
		default:
			seen[at.Value] = at.Line
			do(at.Value, at, value)
		}
	}
}

// mapping reads a mapping with known keys, and returns the nodes of the values that are there.
func (d *decoder) mapping(n *yaml.Node, f fields) map[string]*yaml.Node {
	there := make(map[string]*yaml.Node)
	d.each(n, func(key string, at, value *yaml.Node) {
		to, ok := f[key]
		if !ok {
			d.wrong(at, "%q means nothing here: %s", key, suggest(key, slices.Sorted(maps.Keys(f))))
			return
		}
		there[key] = value
		d.value(value, to)
	})
	return there
}

// list calls do for each element of a list. No value at all is an empty list.
func (d *decoder) list(n *yaml.Node, do func(i int, n *yaml.Node)) {
	n = follow(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.misread(n, "here must be a list, as in [a, b], not %s", kindOf(n))
		return
	}
	for i, item := range n.Content {
		if !d.count(item) {
			return
		}
		do(i, follow(item))
	}
}

// value reads one value.
func (d *decoder) value(n *yaml.Node, to any) {
	switch to := to.(type) {
	case func(*yaml.Node):
		to(n)
	case *[]string:
		*to = []string{}
		d.list(n, func(_ int, n *yaml.Node) {
			var text string
			d.value(n, &text)
			*to = append(*to, text)
		})
	case *[]int:
		d.list(n, func(_ int, n *yaml.Node) {
			var number int
			d.value(n, &number)
			*to = append(*to, number)
		})
	case bound:
		d.bound(n, to.to)
	case **int:
		*to = new(int)
		d.value(n, *to)
	case **time.Duration:
		*to = new(time.Duration)
		d.value(n, *to)
	default:
		d.scalar(n, to)
	}
}

func (d *decoder) bound(n *yaml.Node, to any) {
	d.value(n, to)
	var zero bool
	switch to := to.(type) {
	case *int:
		zero = *to == 0
	case *float64:
		zero = *to == 0
	case *time.Duration:
		zero = *to == 0
	case size:
		zero = *to.to == 0
	default:
		panic(fmt.Sprintf("config: no bound is a %T", to))
	}
	if zero {
		d.wrong(n, "%s would mean the default: leave the key out for that, or give more than zero", n.Value)
	}
}

// tags are those that the parser gives to values that say none.
var tags = []string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}

func (d *decoder) scalar(n *yaml.Node, to any) {
	if n.Kind != yaml.ScalarNode {
		d.misread(n, "here must be a single value, not %s", kindOf(n))
		return
	}
	if null(n) {
		d.misread(n, "the value is missing: give one, or leave the key out")
		return
	}
	if !slices.Contains(tags, n.Tag) {
		d.misread(n, "the tag %.50s is not understood here: leave it out", n.Tag)
		return
	}
	switch to := to.(type) {
	case *string:
		*to = n.Value // numbers and the like as they are written
	case path:
		*to.to = d.path(n.Value)
	case secret:
		*to.to = d.secret(n)
	case *bool:
		if n.Tag != "!!bool" || !strings.EqualFold(n.Value, "true") && !strings.EqualFold(n.Value, "false") {
			d.misread(n, "%.50q is neither true nor false", n.Value)
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	case *int:
		number, err := strconv.Atoi(n.Value)
		if n.Tag != "!!int" || err != nil {
			d.misread(n, "%.50q is no whole number", n.Value)
			return
		}
		*to = number
	case *float64:
		number, err := strconv.ParseFloat(n.Value, 64)
		if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			d.misread(n, "%.50q is no number", n.Value)
			return
		}
		*to = number
	case *time.Duration:
		length, err := time.ParseDuration(n.Value)
		switch {
		case err != nil:
			d.misread(n, "%.50q is no length of time: write it with a unit, as in 30s, 5m or 1h30m", n.Value)
		case length < 0:
			d.misread(n, "%s is less than zero", n.Value)
		default:
			*to = length
		}
	case size:
		bytes, ok := parseSize(n.Value)
		if !ok {
			d.misread(n, "%.50q is no size: write the number of bytes, or as in 64KiB or 8MiB", n.Value)
			return
		}
		*to.to = bytes
	default:
		panic(fmt.Sprintf("config: no way to read a %T", to))
	}
}

// path is where a file is that a configuration names.
func (d *decoder) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.dir, name)
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// secret reads a secret: "file:" and a path, or text in which ${NAME} stands for a variable of the environment, and $${ for ${.
func (d *decoder) secret(n *yaml.Node) string {
	if name, ok := strings.CutPrefix(n.Value, "file:"); ok {
		return d.secretFile(n, name)
	}
	if n.Value != "" && !strings.Contains(n.Value, "${") {
		d.literal = append(d.literal, n)
	}
	return variable.ReplaceAllStringFunc(n.Value, func(match string) string {
		if strings.HasPrefix(match, "$$") {
			return match[1:]
		}
		return d.secretEnv(n, match[2:len(match)-1])
	})
}

func (d *decoder) secretEnv(n *yaml.Node, name string) string {
	value, ok := d.env(name)
	if !ok || value == "" {
		d.misread(n, "the environment variable %q is not set, or empty", name)
	}
	return value
}

func (d *decoder) secretFile(n *yaml.Node, name string) string {
	name = d.path(name)
	info, err := os.Stat(name)
	if err != nil {
		d.misread(n, "the secret cannot be read: %v", err)
		return ""
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<10 {
		d.misread(n, "%s is no file of at most 64 KiB", name)
		return ""
	}
	text, err := os.ReadFile(name)
	if err != nil {
		d.misread(n, "the secret cannot be read: %v", err)
		return ""
	}
	if info.Mode().Perm()&0o007 != 0 {
		d.warn(n, "%s can be read by every user: chmod o= it", name)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		d.misread(n, "%s is empty", name)
	}
	return value
}

// parseSize reads a number of bytes.
func parseSize(text string) (int64, bool) {
	unit := int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 || number > math.MaxInt64/unit {
		return 0, false
	}
	return number * unit, true
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

// suggest says which key may be meant.
func suggest(key string, known []string) string {
	best, least := "", len(key)/2+1
	for _, k := range known {
		if n := distance(key, k); n < least {
			best, least = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "the keys are " + strings.Join(known, ", ")
}

// distance is how many letters must be put in, left out or changed to get from one word to the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
