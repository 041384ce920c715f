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

// errStdin is what a program leaves behind that did not read all of its input.
var errStdin error = syscall.EPIPE

// credential is whom a program runs as.
type credential = syscall.Credential

// lookUp finds a user, by name or number.
func lookUp(name string) (*credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("there is no user %q on this machine", name)
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
		return nil, fmt.Errorf("the groups of the user %q: %w", name, err)
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

// runGroup runs a program in a process group of its own, which ends with it: whatever the program started and left behind is killed. When
// ctx ends, the group gets a SIGTERM, and a SIGKILL after the grace: then stopped is true, however the program ended.
func runGroup(ctx context.Context, cmd *exec.Cmd, as *credential, grace time.Duration) (stopped bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	shutFiles()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	dieWithParent(cmd.SysProcAttr)
	// The kernel takes the end of the thread that started the program for the end of its parent.
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
		case <-ended: // it came first: what is done is done
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
		_ = syscall.Kill(group, syscall.SIGKILL) // fails where nothing is left
	})
	return stopped, err
}
