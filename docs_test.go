package asynq_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a piece of Go code in a document.
var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestDocsAreCompiled holds each Go block of the README and of docs/ against the examples of all modules, which are compiled and run.
func TestDocsAreCompiled(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, example := range contents(t, "example_*test.go", "x/*/example_*test.go", "x/*/*/example_*test.go") {
		source.WriteString(unindented(example))
	}
	blocks := 0
	for path, doc := range contents(t, "README.md", "docs/*.md") {
		for _, block := range goBlock.FindAllStringSubmatch(doc, -1) {
			blocks++
			if !strings.Contains(source.String(), unindented(block[1])) {
				t.Errorf("this block of %s is not in an example:\n%s", path, block[1])
			}
		}
	}
	if blocks < 38 {
		t.Errorf("found %d Go blocks", blocks)
	}
}

// contents are the texts of files, by their path.
func contents(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s fits %d files, error %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
	}
	return texts
}

// unindented drops the indentation of all lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
