package asynq_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a block of Go code in a document.
var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestDocsAreCompiled requires that each Go block of the README and of docs/ is part of an example,
// which is compiled and run.
func TestDocsAreCompiled(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, example := range contents(t, "example_*test.go", "step/example_*test.go", "flow/example_*test.go", "x/*/example_*test.go", "examples/*/*.go", "examples/*/*/*.go") {
		source.WriteString(unindented(example))
	}
	blocks := 0
	for path, doc := range contents(t, "README.md", "docs/*.md") {
		for _, block := range goBlock.FindAllStringSubmatch(doc, -1) {
			blocks++
			if !strings.Contains(source.String(), unindented(block[1])) {
				t.Errorf("%s: this block is not part of an example:\n%s", path, block[1])
			}
		}
	}
	if blocks < 40 {
		t.Errorf("found %d Go blocks, want at least 40", blocks)
	}
}

// TestGuideHasWholeFunctions requires that each Go block of the README and of the guide is a whole
// program, or consists of whole declarations, and that a test calls its functions.
func TestGuideHasWholeFunctions(t *testing.T) {
	t.Parallel()
	sources := contents(t, "examples/guide/*.go", "examples/guide/*/*.go")
	var tests strings.Builder
	for path, text := range sources {
		if strings.HasSuffix(path, "_test.go") {
			tests.WriteString(text)
		}
	}
	for path, doc := range contents(t, "README.md", "docs/GUIDE.md") {
		blocks := goBlock.FindAllStringSubmatch(doc, -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Go blocks", path)
		}
		for _, block := range blocks {
			if isWhole(sources, block[1]) {
				continue // a program, which TestPrograms runs
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, "package p\n"+block[1], 0)
			if err != nil {
				t.Errorf("%s: this block is not a sequence of whole declarations (%v):\n%s", path, err, block[1])
				continue
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if ok && !strings.HasPrefix(f.Name.Name, "Test") && !strings.Contains(tests.String(), "guide."+f.Name.Name) {
					t.Errorf("%s: no test in examples/guide calls %s", path, f.Name.Name)
				}
			}
		}
	}
}

// isWhole reports whether a block is the text of a whole file.
func isWhole(files map[string]string, block string) bool {
	for _, text := range files {
		if text == block {
			return true
		}
	}
	return false
}

var (
	// codeBlock is a block of code, in which nothing is a link or a heading.
	codeBlock = regexp.MustCompile("(?ms)^[ \t]*```.*?\n[ \t]*```")
	// relativeLink is the target of a Markdown link or image within the repository.
	relativeLink = regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	// notInAnchor matches the characters that GitHub removes from a heading to make its anchor.
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	codeSpan    = regexp.MustCompile("`([^`\n]+)`")
)

// TestDocsLinksResolve requires that each link from a document to a file or heading of the
// repository leads to one.
func TestDocsLinksResolve(t *testing.T) {
	t.Parallel()
	docs := contents(t, "*.md", "docs/*.md")
	anchors := make(map[string]map[string]bool)
	for path, doc := range docs {
		docs[path] = codeBlock.ReplaceAllString(doc, "")
		anchors[path] = make(map[string]bool)
		for _, h := range heading.FindAllStringSubmatch(docs[path], -1) {
			anchor := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
			anchors[path][strings.ReplaceAll(anchor, " ", "-")] = true
		}
	}
	for path, doc := range docs {
		for _, link := range relativeLink.FindAllStringSubmatch(doc, -1) {
			file, anchor, hasAnchor := strings.Cut(link[1], "#")
			target := path
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, link[1])
			} else if hasAnchor && anchors[target] != nil && !anchors[target][anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", path, link[1], target)
			}
		}
	}
}

// TestDocsNameExistingFiles requires that the files, packages and scripts that the pages for
// maintainers name exist.
func TestDocsNameExistingFiles(t *testing.T) {
	t.Parallel()
	for path, doc := range contents(t, "docs/ARCHITECTURE.md", "docs/GLOSSARY.md") {
		for _, span := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(doc, ""), -1) {
			name := span[1]
			patterns := []string{name}
			switch {
			case strings.HasSuffix(name, ".lua"):
				patterns = []string{name, "internal/*/lua/" + name}
			case strings.HasPrefix(name, "internal/"), strings.HasPrefix(name, "test/"), strings.HasPrefix(name, "x/"),
				strings.HasSuffix(name, ".go"), strings.HasSuffix(name, ".md"):
			default:
				continue
			}
			found := false
			for _, pattern := range patterns {
				matches, err := filepath.Glob(pattern)
				found = found || err == nil && len(matches) > 0
			}
			if !found {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}

// contents returns the texts of the files that match the patterns, by path.
func contents(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("pattern %s matches %d files, error %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.ToSlash(path)] = string(text)
		}
	}
	return texts
}

// unindented removes the indentation of all lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
