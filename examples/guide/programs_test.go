package guide_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// TestPrograms runs the producer and the worker of the README on one Redis.
func TestPrograms(t *testing.T) {
	redis := miniredis.RunT(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), "./producer", "./worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := func(name string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "REDIS_ADDR="+redis.Addr())
		return cmd
	}
	if out, err := program("producer").CombinedOutput(); err != nil || !strings.Contains(string(out), "enqueued task") {
		t.Fatalf("producer: %v\n%s", err, out)
	}
	worker := program("worker")
	output, err := worker.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	welcomed := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "welcome, user 42") {
			welcomed = true
			if err := worker.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := worker.Wait(); err != nil || !welcomed {
		t.Errorf("worker: %v, processed the task: %v", err, welcomed)
	}
}
