package parity

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	// Linked in to invalidate the test cache when the library changes, and to prove that a program
	// can import both during a migration.
	_ "github.com/asynq-go/asynq"
	_ "github.com/asynq-go/asynq/test/parity/usage"
)

const (
	refPath = "github.com/hibiken/asynq"
	ownPath = "github.com/asynq-go/asynq"
)

// load returns the types of both libraries and of their imports, each loaded once.
var load = sync.OnceValues(func() (map[string]*types.Package, error) {
	cfg := &packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes}
	roots, err := packages.Load(cfg, refPath, ownPath, ownPath+"/test/parity/usage")
	if err != nil {
		return nil, err
	}
	loaded := make(map[string]*types.Package)
	packages.Visit(roots, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			err = e
		}
		loaded[p.PkgPath] = p.Types
	})
	return loaded, err
})

func TestExportedAPI(t *testing.T) {
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	found := compare(loaded[refPath], loaded[ownPath])
	meant, err := documented(filepath.Join("..", "..", "docs", "COMPATIBILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if !slices.Contains(meant, d) {
			t.Errorf("differs from the reference: %v", d)
		}
	}
	for _, d := range meant {
		if !slices.Contains(found, d) {
			t.Errorf("docs/COMPATIBILITY.md lists a difference that no longer exists: %v", d)
		}
	}
}

// documented reads the table of intended differences, with lines | `identifier` | difference |
// reason |.
func documented(file string) ([]difference, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseTable(string(text))
}

// TestUsage compiles the program in usage with this library instead of the reference. The build of
// this module compiles it with the reference.
func TestUsage(t *testing.T) {
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join("usage", "usage.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{refPath, ownPath} {
		swapped := 0
		cfg := types.Config{
			Importer: importerFunc(func(name string) (*types.Package, error) {
				if name == refPath {
					swapped++
					name = path
				}
				return loaded[name], nil
			}),
			Error: func(err error) { t.Errorf("with %s: %v", path, err) },
		}
		_, _ = cfg.Check("usage", fset, []*ast.File{file}, nil) // reported by Error
		if swapped == 0 {
			t.Errorf("the program does not import %s", refPath)
		}
	}
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

func parseTable(text string) (table []difference, err error) {
	inTable := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			inTable = false
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "identifier" && cells[1] == "difference" && cells[2] == "reason":
			inTable = true
		case !inTable || strings.Trim(cells[0], "-") == "":
		case cells[2] == "":
			return nil, fmt.Errorf("%s has no reason", cells[0])
		default:
			table = append(table, difference{strings.Trim(cells[0], "`"), cells[1]})
		}
	}
	return table, nil
}
