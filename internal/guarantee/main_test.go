package guarantee_test

import (
	"os"
	"testing"

	"github.com/asynq-go/asynq/internal/testenv"
)

// TestMain runs the tests. Tests that kill a server start this binary again as a child process.
func TestMain(m *testing.M) {
	if os.Getenv(crashableEnv) != "" {
		runCrashable()
		return
	}
	testenv.Main(m)
}
