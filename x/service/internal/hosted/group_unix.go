//go:build unix

package hosted

import (
	"context"
	"fmt"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const supported = true

// errStdin is the error of a program that ends without reading all of its input.
var errStdin error = syscall.EPIPE

// credential is the user that a program runs as.
type credential = syscall.Credential

// lookupUser finds a user by name or ID.
func lookupUser(name string) (*credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("user %q does not exist on this machine", name)
		}
	}
	c := new(credential)
	for _, id := range []struct {
		text string
		to   *uint32
	}{{u.Uid, &c.Uid}, {u.Gid, &c.Gid}} {
		n, err := strconv.ParseUint(id.text, 10, 32)
		if err != nil {
			return nil, err
		}
		*id.to = uint32(n)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot read the groups of user %q: %w", name, err)
	}
	for _, text := range groups {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, uint32(n))
	}
	return c, nil
}

// runGroup runs a program in its own process group. When the program ends, all remaining processes
// of the group are killed. When ctx is done, the group receives SIGTERM, and SIGKILL after the
// grace period; stopped is then true, however the program ends.
func runGroup(ctx context.Context, cmd *exec.Cmd, as *credential, grace time.Duration) (stopped bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	closeInheritedFiles()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	dieWithParent(cmd.SysProcAttr)
	// Pdeathsig refers to the thread that started the program, so the thread must live.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	group := -cmd.Process.Pid
	ended := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended: // the program ended first
			return
		default:
		}
		stopped = true
		_ = syscall.Kill(group, syscall.SIGTERM)
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-ended:
		case <-late.C:
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	})
	err = reap(cmd, func() {
		close(ended)
		killer.Wait()
		_ = syscall.Kill(group, syscall.SIGKILL) // fails if no process is left
	})
	return stopped, err
}
