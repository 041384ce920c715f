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

// decoder reads values from YAML nodes and collects all errors.
type decoder struct {
	file     string
	dir      string // base of relative paths
	env      func(string) (string, bool)
	errs     []Issue
	warnings []Issue
	literal  []*yaml.Node        // secrets written in the file itself
	mistyped map[*yaml.Node]bool // values of the wrong type, whose defaults are not validated
	values   int                 // number of values read, aliases expanded
}

// maxValues limits the values of a file. Aliases of long lists expand a short file without limit.
const maxValues = 200_000

// count reports whether another value may be read. It reports an error once when the limit is
// exceeded.
func (d *decoder) count(n *yaml.Node) bool {
	if d.values++; d.values == maxValues+1 {
		d.errorf(n, "too many values: the limit is %d, with aliases expanded", maxValues)
	}
	return d.values <= maxValues
}

// fields maps the keys of a mapping to the destinations of their values: pointers that value
// supports, or functions of the node.
type fields map[string]any

// Destinations that are not read by their type alone.
type (
	secret struct{ to *string } // from the environment, a file or the value itself; never in errors
	size   struct{ to *int64 }  // bytes, as in 64KiB
	bound  struct{ to any }     // rejects zero, which would select the default later
	path   struct{ to *string } // path of a file, relative to this one
)

// errorf reports an error of a value, unless the value could not be read, which has been reported.
func (d *decoder) errorf(n *yaml.Node, format string, args ...any) {
	if !d.mistyped[n] {
		d.errs = append(d.errs, issueAt(d.file, n, fmt.Sprintf(format, args...)))
	}
}

// typeErrorf reports why a value cannot be read.
func (d *decoder) typeErrorf(n *yaml.Node, format string, args ...any) {
	d.errorf(n, format, args...)
	if d.mistyped == nil {
		d.mistyped = make(map[*yaml.Node]bool)
	}
	d.mistyped[n] = true
}

func (d *decoder) warnf(n *yaml.Node, format string, args ...any) {
	d.warnings = append(d.warnings, issueAt(d.file, n, fmt.Sprintf(format, args...)))
}

// hasError reports whether a node has an error.
func (d *decoder) hasError(n *yaml.Node) bool {
	return slices.ContainsFunc(d.errs, func(i Issue) bool { return i.Line == n.Line && i.Column == n.Column })
}

// follow resolves aliases.
func follow(n *yaml.Node) *yaml.Node {
	for range 10 {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// each calls do for each key of a mapping, with the nodes of the key and its value. Null is an
// empty mapping.
func (d *decoder) each(n *yaml.Node, do func(key string, at, value *yaml.Node)) {
	n = follow(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.typeErrorf(n, "must be a mapping, not %s", kindOf(n))
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
			d.errorf(at, "a key must be a string, not %s", kindOf(at))
		case at.Tag == "!!merge":
			d.errorf(at, "merge keys (<<) are not supported: write out the keys")
		case twice:
			d.errorf(at, "duplicate key %q, also in line %d", at.Value, line)
		default:
			seen[at.Value] = at.Line
			do(at.Value, at, value)
		}
	}
}

// mapping reads a mapping with known keys and returns the nodes of its values by key.
func (d *decoder) mapping(n *yaml.Node, f fields) map[string]*yaml.Node {
	nodes := make(map[string]*yaml.Node)
	d.each(n, func(key string, at, value *yaml.Node) {
		to, ok := f[key]
		if !ok {
			d.errorf(at, "unknown key %q: %s", key, suggest(key, slices.Sorted(maps.Keys(f))))
			return
		}
		nodes[key] = value
		d.value(value, to)
	})
	return nodes
}

// list calls do for each element of a list. Null is an empty list.
func (d *decoder) list(n *yaml.Node, do func(i int, n *yaml.Node)) {
	n = follow(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.typeErrorf(n, "must be a list, as in [a, b], not %s", kindOf(n))
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
		panic(fmt.Sprintf("config: unsupported bound %T", to))
	}
	if zero {
		d.errorf(n, "must be greater than zero: omit the key for the default")
	}
}

// tags are the implicit tags of the parser.
var tags = []string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}

func (d *decoder) scalar(n *yaml.Node, to any) {
	if n.Kind != yaml.ScalarNode {
		d.typeErrorf(n, "must be a scalar, not %s", kindOf(n))
		return
	}
	if isNull(n) {
		d.typeErrorf(n, "the value is missing: set it or remove the key")
		return
	}
	if !slices.Contains(tags, n.Tag) {
		d.typeErrorf(n, "the tag %.50s is not supported: remove it", n.Tag)
		return
	}
	switch to := to.(type) {
	case *string:
		*to = n.Value // other scalars keep their text
	case path:
		*to.to = d.path(n.Value)
	case secret:
		*to.to = d.secret(n)
	case *bool:
		if n.Tag != "!!bool" || !strings.EqualFold(n.Value, "true") && !strings.EqualFold(n.Value, "false") {
			d.typeErrorf(n, "%.50q is not a boolean: use true or false", n.Value)
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	case *int:
		number, err := strconv.Atoi(n.Value)
		if n.Tag != "!!int" || err != nil {
			d.typeErrorf(n, "%.50q is not an integer", n.Value)
			return
		}
		*to = number
	case *float64:
		number, err := strconv.ParseFloat(n.Value, 64)
		if n.Tag != "!!int" && n.Tag != "!!float" || err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			d.typeErrorf(n, "%.50q is not a number", n.Value)
			return
		}
		*to = number
	case *time.Duration:
		length, err := time.ParseDuration(n.Value)
		switch {
		case err != nil:
			d.typeErrorf(n, "%.50q is not a duration: use a unit, as in 30s, 5m or 1h30m", n.Value)
		case length < 0:
			d.typeErrorf(n, "%s is negative", n.Value)
		default:
			*to = length
		}
	case size:
		bytes, ok := parseSize(n.Value)
		if !ok {
			d.typeErrorf(n, "%.50q is not a size: use bytes, or a unit as in 64KiB or 8MiB", n.Value)
			return
		}
		*to.to = bytes
	default:
		panic(fmt.Sprintf("config: unsupported destination %T", to))
	}
}

// path resolves the path of a file that the configuration names.
func (d *decoder) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.dir, name)
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// secret reads a secret: "file:" and a path, or text in which ${NAME} is an environment variable
// and $${ is a literal ${.
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
		d.typeErrorf(n, "the environment variable %q is not set or empty", name)
	}
	return value
}

func (d *decoder) secretFile(n *yaml.Node, name string) string {
	name = d.path(name)
	info, err := os.Stat(name)
	if err != nil {
		d.typeErrorf(n, "cannot read the secret: %v", err)
		return ""
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<10 {
		d.typeErrorf(n, "%s is not a regular file of at most 64 KiB", name)
		return ""
	}
	text, err := os.ReadFile(name)
	if err != nil {
		d.typeErrorf(n, "cannot read the secret: %v", err)
		return ""
	}
	if info.Mode().Perm()&0o007 != 0 {
		d.warnf(n, "%s is readable by every user: run chmod o=", name)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		d.typeErrorf(n, "%s is empty", name)
	}
	return value
}

// parseSize parses a size in bytes.
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
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a scalar"
	}
}

// suggest returns the most similar known key, or lists them all.
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
	return "valid keys are " + strings.Join(known, ", ")
}

// distance returns the Levenshtein distance of two words.
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
