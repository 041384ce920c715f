package standalone_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/asynq-go/asynq/x/service/standalone"
)

func TestInit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "service.yaml")
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := standalone.Init(path, false); err != nil {
		t.Fatal(err)
	}
	first := read()
	if warnings, err := standalone.Check(path); err != nil || len(warnings) != 0 {
		t.Errorf("check: %v, %v; want no errors and no warnings", warnings, err)
	}
	if !regexp.MustCompile(`(?m)^    secret: [0-9a-f]{48}$`).MatchString(first) {
		t.Errorf("no generated secret in\n%s", first)
	}
	if err := standalone.Init(path, false); !errors.Is(err, fs.ErrExist) || read() != first {
		t.Errorf("a second Init: %v; want fs.ErrExist and the file unchanged", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := standalone.Init(path, true); err != nil || read() == first {
		t.Errorf("with force: %v; want another secret", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("remaining files: %v", left)
	}
}
