package guarantee_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	guaranteeHeading = regexp.MustCompile(`(?m)^## (\d+)\. (.+)$`)
	testName         = regexp.MustCompile("`(Test\\w+)`")
)

// TestGuaranteesAreDocumented requires that docs/GUARANTEES.md lists all 17 guarantees in order,
// and each test of this package that bears a number, under that number.
func TestGuaranteesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	exist := testFuncs(t)
	headings := guaranteeHeading.FindAllStringSubmatchIndex(doc, -1)
	if len(headings) != 17 {
		t.Errorf("the document has %d numbered guarantees, want 17", len(headings))
	}
	for i, h := range headings {
		if got, want := doc[h[2]:h[3]], fmt.Sprint(i+1); got != want {
			t.Errorf("guarantee %s follows guarantee %d", got, i)
		}
		section := doc[h[1]:]
		if i+1 < len(headings) {
			section = doc[h[1]:headings[i+1][0]]
		}
		_, list, _ := strings.Cut(section, "\nTests:")
		list, _, _ = strings.Cut(list, "\n\n")
		prefix := fmt.Sprintf("TestGuarantee%02d", i+1)
		var listed []string
		for _, name := range testName.FindAllStringSubmatch(list, -1) {
			if !exist[name[1]] {
				t.Errorf("guarantee %d lists %s, which does not exist", i+1, name[1])
			}
			if strings.HasPrefix(name[1], prefix) {
				listed = append(listed, name[1])
			}
		}
		if len(listed) == 0 {
			t.Errorf("guarantee %d (%s) lists no test named %s…", i+1, doc[h[4]:h[5]], prefix)
		}
		for _, name := range slices.Sorted(maps.Keys(exist)) {
			if strings.HasPrefix(name, prefix) {
				if !slices.Contains(listed, name) {
					t.Errorf("guarantee %d does not list %s", i+1, name)
				}
				delete(exist, name)
			}
		}
	}
	numbered := regexp.MustCompile(`^TestGuarantee\d`)
	for name := range exist {
		if numbered.MatchString(name) {
			t.Errorf("%s belongs to no guarantee", name)
		}
	}
}

// testFuncs returns the names of the tests of this package.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
