package step_test

import (
	"os"
	"testing"

	"github.com/asynq-go/asynq/internal/testenv"
)

// TestMain runs the tests. Tests that kill processes start this binary again as a child process.
func TestMain(m *testing.M) {
	if uri := os.Getenv(childEnv); uri != "" {
		os.Exit(runChild(uri))
	}
	testenv.Main(m)
}
