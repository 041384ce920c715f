package asynq_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestREADMECodeIsCompiled holds each Go block of the README against the package's examples, which are compiled and run.
func TestREADMECodeIsCompiled(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var source string
	for _, pattern := range []string{"example_*test.go", "x/*/example_*test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			examples, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source += unindented(string(examples))
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 5 {
		t.Fatalf("found %d Go blocks in the README, want at least 5", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, unindented(block[1])) {
			t.Errorf("this block of README.md is not in an example:\n%s", block[1])
		}
	}
}

// unindented drops the indentation of all lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
