package tasks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each Go block of docs/TASKS_SDK.md is in an example, which is compiled.
func TestDocsAreCompiled(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/TASKS_SDK.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	indent := regexp.MustCompile(`(?m)^\t+`)
	source := indent.ReplaceAllString(string(examples), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 6 {
		t.Fatalf("found %d Go blocks", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, indent.ReplaceAllString(block[1], "")) {
			t.Errorf("this block is in no example:\n%s", block[1])
		}
	}
}
