package site

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// harnessEnv makes the test binary a harness that starts a site in the directory of this name and
// waits to be killed.
const harnessEnv = "ASYNQ_TEST_SITE_DIR"

func runHarness() {
	s, err := Start(context.Background(), Options{Kind: Standalone, Dir: os.Getenv(harnessEnv)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Nodes()[0].PID())
	time.Sleep(time.Minute) // killed before
	os.Exit(1)
}

// TestDiesWithHarness kills a harness before it can close its site.
func TestDiesWithHarness(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	if runtime.GOOS != "linux" {
		return // only supported by Linux
	}
	harness := exec.Command(os.Args[0])
	harness.Env = append(os.Environ(), harnessEnv+"="+filepath.Join(t.TempDir(), "site"))
	out, err := harness.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Start(); err != nil {
		t.Fatal(err)
	}
	defer harness.Wait()         //nolint:errcheck // killed
	defer harness.Process.Kill() //nolint:errcheck // may have exited
	line, _, err := bufio.NewReader(out).ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(line))
	if err != nil {
		t.Fatalf("the harness says %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the server does not run: %v", err)
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err = until(t.Context(), "the server to be gone", func(context.Context) error {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !dead(stat) {
			return errors.New("still running")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// dead reports whether a process has exited, even if it has not been reaped.
func dead(stat []byte) bool {
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(after, []byte("Z"))
}
