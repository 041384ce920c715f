package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/asynq-go/asynq/x/service/standalone" // the program under test has it: with it, changes of it change this test
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // it is in a temporary directory
	}
	os.Exit(code)
}

// built is the program under test.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program is the path of the command asynq, which is built for the first test that asks. It is a module of its own: the build is its own,
// too, and follows go.work, or that module's go.mod where GOWORK=off.
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
		t.Fatalf("building the program: %v", built.err)
	}
	return filepath.Join(built.dir, "asynq")
}
