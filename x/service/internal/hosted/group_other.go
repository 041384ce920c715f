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
	errStdin       = errors.New("input not read")
	errUnsupported = errors.New("commands require Linux or another Unix")
)

// credential is the user that a program runs as.
type credential struct{}

func lookupUser(string) (*credential, error) { return nil, errUnsupported }

func runGroup(context.Context, *exec.Cmd, *credential, time.Duration) (bool, error) {
	return false, errUnsupported
}
