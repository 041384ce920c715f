package script

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shared are the parts that scripts of several packages include.
//
//go:embed lua/*.lua
var shared embed.FS

// Script is one Lua script: the text that Redis runs, and the numbers of KEYS and ARGV that its
// header declares. It is prepared when it is first called.
type Script struct {
	Name  string
	files fs.FS
	path  string
	marks []string // what begins the lines that only this variant runs

	once   sync.Once // sets the fields below
	text   string
	sha    any // a string, boxed once
	rawSHA []byte
	keys   arity
	args   arity

	cluster *Script // what a Cluster runs instead; nil: this is it
}

// arity is the number of values that a header declares: fixed ones, followed by any number of
// values if variadic is set.
type arity struct {
	fixed    int
	variadic bool
}

func (a arity) admits(n int) bool { return n == a.fixed || a.variadic && n >= a.fixed }

// loaded are all scripts. Only package variables load scripts.
var loaded []*Script

// NameOf returns the name of a script by its SHA-1, "" if there is no such script. It prepares all
// scripts, for tests.
func NameOf(sha string) string {
	for _, s := range loaded {
		if s.once.Do(s.prepare); s.sha == sha {
			return s.Name
		}
	}
	return ""
}

// Load returns the script lua/name.lua of the files.
func Load(files fs.FS, name string) *Script { return load(files, name, name) }

// LoadVariant returns a variant of a script, with the name name_variant: lines that begin with
// "-- variant: " also run.
func LoadVariant(files fs.FS, name, variant string) *Script {
	return load(files, name, name+"_"+variant, "-- "+variant+": ")
}

func load(files fs.FS, file, name string, marks ...string) *Script {
	s := &Script{Name: name, files: files, path: "lua/" + file + ".lua", marks: marks}
	s.cluster = &Script{Name: name, files: files, path: s.path, marks: append(slices.Clone(marks), onlyCluster)}
	loaded = append(loaded, s, s.cluster)
	return s
}

// onlyCluster begins a line that runs only on a Cluster.
const onlyCluster = "-- cluster: "

// prepare reads the script. It replaces the include line with the parts that the line names
// (lua/lib/part.lua of the same files, or a shared part) and strips comments. The files are part of
// the binary, so it panics if one is missing: TestNameOf prepares all scripts.
func (s *Script) prepare() {
	var text strings.Builder
	for line := range strings.Lines(s.read(s.path)) {
		line = s.uncomment(line)
		switch name, n, ok := headerLine(line); {
		case ok && name == "KEYS":
			s.keys = n
		case ok:
			s.args = n
		}
		if parts, ok := strings.CutPrefix(line, "-- include: "); ok {
			for _, part := range strings.Fields(parts) {
				for line := range strings.Lines(s.read("lua/lib/" + part + ".lua")) {
					s.writeCode(&text, line)
				}
			}
		}
		s.writeCode(&text, line)
	}
	s.text = text.String()
	sum := sha1.Sum([]byte(s.text)) //nolint:gosec // See the import.
	s.rawSHA = hex.AppendEncode(nil, sum[:])
	s.sha = string(s.rawSHA)
}

// read returns a file, or the shared part of the same name.
func (s *Script) read(path string) string {
	file, err := fs.ReadFile(s.files, path)
	if part, ok := strings.CutPrefix(path, "lua/lib/"); ok && errors.Is(err, fs.ErrNotExist) {
		file, err = shared.ReadFile("lua/" + part)
	}
	if err != nil {
		panic(err)
	}
	return string(file)
}

// headerLine decodes a line such as "-- KEYS[2..] …".
func headerLine(line string) (name string, values arity, ok bool) {
	rest, comment := strings.CutPrefix(line, "-- ")
	name, rest, _ = strings.Cut(rest, "[")
	index, _, _ := strings.Cut(rest, "]")
	index, values.variadic = strings.CutSuffix(index, "..")
	n, err := strconv.Atoi(index)
	if values.fixed = n; values.variadic {
		values.fixed--
	}
	return name, values, comment && err == nil && (name == "KEYS" || name == "ARGV")
}

// uncomment returns a line without a mark of the variant.
func (s *Script) uncomment(line string) string {
	for _, mark := range s.marks {
		if code, ok := strings.CutPrefix(strings.TrimLeft(line, " "), mark); ok {
			return code
		}
	}
	return line
}

// writeCode writes a line unless it contains only a comment.
func (s *Script) writeCode(to *strings.Builder, line string) {
	line = s.uncomment(line)
	if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
		to.WriteString(line)
	}
}
