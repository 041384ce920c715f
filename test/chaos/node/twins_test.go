package node

import (
	"os"
	"strings"
	"testing"
)

// Both libraries are used in the same way.
func TestLibrariesAreUsedAlike(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ours := strings.NewReplacer("ours", "theirs", "asynq-go/asynq", "hibiken/asynq").Replace(read("ours.go"))
	if ours != read("theirs.go") {
		t.Error("ours.go and theirs.go differ in more than their names: what only one library has belongs into the files _own.go")
	}
}
