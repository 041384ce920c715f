//go:build !unix

package hosted

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

const supported = false

var (
	errStdin       = errors.New("the input was not read")
	errUnsupported = errors.New("commands need Linux or another Unix")
)

// credential is whom a program runs as.
type credential struct{}

func lookUp(string) (*credential, error) { return nil, errUnsupported }

func runGroup(context.Context, *exec.Cmd, *credential, time.Duration) (bool, error) {
	return false, errUnsupported
}
