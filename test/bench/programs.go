package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
)

// modulePath is the module of this library.
const modulePath = "github.com/asynq-go/asynq"

// buildPrograms builds the command asynq and the programs of the directory start with flags of go
// build, and returns their directory. The caller must remove it.
func buildPrograms(ctx context.Context, flags ...string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "asynq-bench-programs-"); err != nil {
		return "", err
	}
	args := slices.Concat([]string{"build", "-buildvcs=false", "-o", dir + string(os.PathSeparator)}, flags, []string{modulePath + "/x/cmd/asynq"})
	for _, name := range slices.Sorted(maps.Values(startPrograms)) {
		args = append(args, modulePath+"/test/bench/start/"+name)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir) // a temporary directory
		return "", fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(out))
	}
	return dir, nil
}
