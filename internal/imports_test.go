// Package internal_test checks which packages import which.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/asynq-go/asynq"

// sourceFile is a Go file of the repository.
type sourceFile struct {
	path    string // from the root of the repository, with slashes
	imports []string
	test    bool
	foreign bool // belongs to another module than the root
}

// dir returns the directory of the file, "." for the root.
func (f *sourceFile) dir() string { return path.Dir(f.path) }

// within reports whether the file is in a directory or below it.
func (f *sourceFile) within(dir string) bool { return strings.HasPrefix(f.path, dir+"/") }

// own returns the imported packages of this repository, as paths from its root.
func (f *sourceFile) own() (packages []string) {
	for _, name := range f.imports {
		if name == module {
			packages = append(packages, ".")
		} else if rest, ok := strings.CutPrefix(name, module+"/"); ok {
			packages = append(packages, rest)
		}
	}
	return packages
}

// others returns the imported packages of other modules.
func (f *sourceFile) others() (packages []string) {
	for _, name := range f.imports {
		first, _, _ := strings.Cut(name, "/")
		if strings.Contains(first, ".") && name != module && !strings.HasPrefix(name, module+"/") {
			packages = append(packages, name)
		}
	}
	return packages
}

// sources parses the imports of all Go files of the repository.
func sources(t *testing.T) []*sourceFile {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var files []*sourceFile
	var modules []string // the directories of the other modules
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch base := entry.Name(); {
		case entry.IsDir() && rel != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() && rel != ".":
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				modules = append(modules, rel)
			}
		case path.Ext(base) == ".go":
			f, err := parse(name, rel)
			if err != nil {
				return err
			}
			f.foreign = slices.ContainsFunc(modules, f.within)
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(name, rel string) (*sourceFile, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	f := &sourceFile{path: rel, test: strings.HasSuffix(rel, "_test.go")}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// mayImport lists the packages that each internal package may import. The root may import all of
// them.
var mayImport = map[string][]string{
	"internal/batch":     {},
	"internal/errorkind": {},
	"internal/wire":      {},
	"internal/prose":     {},
	"internal/runner":    {},
	"internal/timetable": {},
	"internal/redisopt":  {},
	"internal/rollup":    {},
	"internal/lifecycle": {},
	"internal/script":    {"internal/wire"},
	"internal/rdb":       {"internal/redisopt", "internal/rollup", "internal/script", "internal/wire"},
	"internal/inspect":   {"internal/rdb", "internal/rollup", "internal/script", "internal/wire"},
	"internal/rdbcheck":  {"internal/script", "internal/wire"},
	"internal/flow":      {"internal/inspect", "internal/rdb", "internal/script", "internal/wire"},
	"internal/waits":     {"internal/rdb", "internal/wire"},
	"internal/access":    {"internal/inspect", "internal/rdb", "internal/wire"},
	"internal/worker":    {"internal/batch", "internal/rdb", "internal/script", "internal/wire"},
	"internal/loops":     {"internal/rdb", "internal/rollup", "internal/script", "internal/wire"},
	"internal/proctest":  {},
	"internal/redistest": {"internal/proctest", "internal/rdb", "internal/rdbcheck", "internal/script", "internal/wire"},
	"internal/testenv":   {".", "internal/rdb", "internal/rdbcheck", "internal/redistest", "internal/wire"},
	"internal/guarantee": {},
	"internal/hostile":   {},
}

// blackBoxMayImport lists what the tests of internal/guarantee and internal/hostile may import in
// addition.
var blackBoxMayImport = []string{"internal/rdb", "internal/testenv", "internal/wire"}

// testsMayImport lists what the tests of internal packages may import in addition.
var testsMayImport = []string{
	".", "internal/flow", "internal/inspect", "internal/proctest", "internal/rdb", "internal/rdbcheck", "internal/redistest", "internal/rollup", "internal/runner",
	"internal/script", "x/doctor",
}

func TestImportsPointOneWay(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range sources(t) {
		if !f.within("internal") || f.dir() == "internal" {
			continue
		}
		allowed, ok := mayImport[f.dir()]
		if !ok {
			t.Errorf("%s: mayImport has no entry for its package", f.path)
			continue
		}
		seen[f.dir()] = true
		if f.test {
			allowed = slices.Concat(allowed, testsMayImport)
			if f.within("internal/guarantee") || f.within("internal/hostile") {
				allowed = slices.Concat(allowed, blackBoxMayImport)
			}
		}
		for _, imported := range f.own() {
			itself := f.test && imported == f.dir()
			if !itself && !slices.Contains(allowed, imported) {
				t.Errorf("%s must not import %s", f.path, imported)
			}
		}
	}
	for dir := range mayImport {
		if !seen[dir] {
			t.Errorf("package %s does not exist", dir)
		}
	}
}

// othersTestsMayImport lists the tools for the tests and benchmarks of the other modules.
var othersTestsMayImport = []string{"internal/proctest"}

// doctorMayImport lists what x/doctor may import in addition, because it checks and repairs keys.
// doctorTestsMayImport is for its tests.
var (
	doctorMayImport      = []string{"internal/script", "internal/wire"}
	doctorTestsMayImport = []string{"internal/inspect", "internal/rdb", "internal/rdbcheck", "internal/redistest", "internal/testenv"}
)

// Packages and programs that use the library import only what users can import.
func TestOnlyCoreImportsInternals(t *testing.T) {
	found := false
	for _, f := range sources(t) {
		if !f.foreign && !f.within("x") && !f.within("examples") {
			continue
		}
		found = true
		for _, imported := range f.own() {
			tool := (f.test || f.within("test/bench") || f.within("x/cmd/asynq/internal/acltest")) && slices.Contains(othersTestsMayImport, imported)
			doctor := f.within("x/doctor") &&
				(slices.Contains(doctorMayImport, imported) || f.test && slices.Contains(doctorTestsMayImport, imported))
			health := f.within("x/health") && f.test && imported == "internal/testenv"
			if strings.HasPrefix(imported+"/", "internal/") && !tool && !doctor && !health {
				t.Errorf("%s must not import %s", f.path, imported)
			}
		}
	}
	if !found {
		t.Error("found no packages outside the core")
	}
}

// testTools lists packages for tests. They may import each other and testing.
var testTools = []string{
	"internal/proctest", "internal/rdbcheck", "internal/redistest", "internal/testenv", "test/chromium", "x/asynqtest",
	"x/cmd/asynq/internal/acltest",
}

// Programs must not contain test tools.
func TestOnlyTestsImportTestTools(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || slices.ContainsFunc(testTools, f.within) {
			continue
		}
		for _, imported := range f.own() {
			harness := f.within("test/bench") && imported == "internal/proctest"
			if slices.Contains(testTools, imported) && !harness {
				t.Errorf("%s must not import %s", f.path, imported)
			}
		}
		if slices.Contains(f.imports, "testing") {
			t.Errorf("%s must not import testing", f.path)
		}
	}
}

// dependencies lists the modules that the root module may import directly. Tests, test helpers and
// examples may also import testDependencies.
var (
	dependencies = []string{
		"github.com/google/uuid",
		"github.com/redis/go-redis/v9",
		"github.com/robfig/cron/v3",
		"golang.org/x/time",
		"google.golang.org/protobuf",
	}
	testDependencies = []string{
		"github.com/alicebob/miniredis/v2",
		"github.com/google/go-cmp",
		"go.uber.org/goleak",
		"pgregory.net/rapid",
	}
)

func TestDependencies(t *testing.T) {
	for _, f := range sources(t) {
		if f.foreign {
			continue
		}
		allowed := dependencies
		if f.test || f.within("internal/redistest") || f.within("internal/testenv") || f.within("x/asynqtest") || f.within("examples") {
			allowed = slices.Concat(dependencies, testDependencies)
		}
		for _, imported := range f.others() {
			if !slices.ContainsFunc(allowed, func(m string) bool { return strings.HasPrefix(imported+"/", m+"/") }) {
				t.Errorf("%s must not import %s", f.path, imported)
			}
		}
	}
}
