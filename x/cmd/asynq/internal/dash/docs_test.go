package dash

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocScreens checks that each screen in docs/DASH.md consists of lines of one golden screen, in
// order.
func TestDocScreens(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "DASH.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "TestScreens", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	var screens [][]string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		screens = append(screens, screenLines(string(b)))
	}
	blocks := strings.Split(string(text), "```text\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("docs/DASH.md has no screens")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		shown := screenLines(block)
		if !slices.ContainsFunc(screens, func(screen []string) bool { return isSubsequence(shown, screen) }) {
			t.Errorf("docs/DASH.md: not a golden screen:\n%s", block)
		}
	}
}

// screenLines returns the nonblank lines of a screen without trailing spaces.
func screenLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// isSubsequence reports whether all contains the elements of part in order.
func isSubsequence(part, all []string) bool {
	for _, s := range all {
		if len(part) > 0 && part[0] == s {
			part = part[1:]
		}
	}
	return len(part) == 0
}
