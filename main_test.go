package asynq_test

import (
	"flag"
	"os"
	"testing"

	"github.com/asynq-go/asynq/internal/redistest"
)

// TestMain is that of all tests in this directory. A test that kills a server has it in a process of its own, which is this
// binary again.
func TestMain(m *testing.M) {
	if os.Getenv(crashableEnv) != "" {
		runCrashable()
		return
	}
	if os.Getenv(crashableSchedulerEnv) != "" {
		runCrashableScheduler()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Most tests wait most of the time, for leases to end and retries to be due: as many as there are CPUs leave these idle.
		if err := flag.Set("test.parallel", "10"); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}
