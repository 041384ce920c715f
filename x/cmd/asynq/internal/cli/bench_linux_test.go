package cli

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/asynq-go/asynq/internal/proctest"
)

var benchTasks = flag.Int("tasks", 10_000, "how many pending tasks BenchmarkCommands works on")

// BenchmarkCommands runs the commands that read or change many tasks, each once and in a separate
// process. It reports the time and peak memory of each process, as listed in docs/CLI_TASKS.md.
func BenchmarkCommands(b *testing.B) {
	found, err := proctest.HasRedis()
	if !found || err != nil {
		b.Fatal("no redis-server on this machine: ", err)
	}
	server, err := proctest.NewRedis()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	dir := b.TempDir()
	binary, batch, export := filepath.Join(dir, "asynq"), filepath.Join(dir, "batch"), filepath.Join(dir, "export")
	if out, err := exec.Command("go", "build", "-o", binary, "../..").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	const picked = 100
	if err := writeBatch(batch, *benchTasks, picked); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"EnqueueBatch", []string{"task", "enqueue", "--batch", batch, "-q", "big", "-o", "ndjson"}},
		{"LsPage1000", []string{"task", "ls", "-q", "big", "-s", "pending", "--page", "1000"}},
		{"LsFilter", []string{"task", "ls", "-q", "big", "-s", "pending", "--filter", "payload:nothing", "--all"}},
		{"DeleteallFilter100", []string{"task", "deleteall", "-q", "big", "-s", "pending", "--filter", "type:rare", "--yes"}},
		{"Export", []string{"export", "big", export}},
		{"Deleteall", []string{"task", "deleteall", "-q", "big", "-s", "pending", "--yes"}},
		{"Import", []string{"import", export}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for n := range b.N {
				if n > 0 {
					b.Fatal("a command changes the tasks: use -benchtime 1x")
				}
				cmd := exec.Command(binary, append([]string{"--uri", server.Addr()}, c.args...)...)
				cmd.Stdout = io.Discard
				cmd.Stderr = os.Stderr
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
				b.ReportMetric(b.Elapsed().Seconds(), "s")
				b.ReportMetric(float64(usage.Maxrss)/1024, "MB")
				b.ReportMetric(0, "ns/op") // it would report the same as s
			}
		})
	}
}

// writeBatch writes n tasks, with rare tasks of type rare in the middle.
func writeBatch(path string, n, rare int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	w := bufio.NewWriter(f)
	for i := range n {
		typename := "email:welcome"
		if i >= n/2 && i < n/2+rare {
			typename = "rare"
		}
		fmt.Fprintf(w, `{"type":%q,"payload":{"user_id":%d}}`+"\n", typename, i)
	}
	return w.Flush()
}
