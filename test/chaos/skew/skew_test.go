package skew_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/asynq-go/asynq/test/chaos/skew"
)

func TestClockIsWrong(t *testing.T) {
	t.Parallel()
	program, err := skew.Build(context.Background(), t.TempDir(), "./testdata/clock")
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{-time.Hour, 0, 1500 * time.Second} {
		cmd := exec.CommandContext(context.Background(), program)
		cmd.Env = append(os.Environ(), skew.Env(ahead))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var sec int64
		var steady bool
		if _, err := fmt.Sscan(string(out), &sec, &steady); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(sec, 0)) - ahead; off.Abs() > 10*time.Second || !steady {
			t.Errorf("%v ahead: the clock is off by %v more, and steady: %v", ahead, off, steady)
		}
	}
}
