package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/asynq-go/asynq/x/service/standalone" // invalidates the test cache when the program under test changes
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the program under test.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of the command asynq and builds it once. The command is a separate
// module: its build uses go.work, or the go.mod of that module if GOWORK=off.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "asynq-e2e-"); built.err != nil {
			return
		}
		args := append([]string{"build", "-o", built.dir + string(filepath.Separator)}, buildFlags...)
		cmd := exec.Command("go", append(args, ".")...)
		cmd.Dir = filepath.Join("..", "..", "cmd", "asynq")
		if text, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, text)
		}
	})
	if built.err != nil {
		t.Fatalf("build: %v", built.err)
	}
	return filepath.Join(built.dir, "asynq")
}
