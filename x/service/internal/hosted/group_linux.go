package hosted

import (
	"errors"
	"math"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the program when the service dies, however it does.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// reap waits until a program has ended, and calls cleanUp before its number can be that of another one.
func reap(cmd *exec.Cmd, cleanUp func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	cleanUp()
	return cmd.Wait()
}

// shutFiles keeps files from programs that the service itself was started with, and does not know of. Those that it opens, no program gets.
var shutFiles = sync.OnceFunc(func() {
	// Kernels before 5.11 cannot: there, a program gets what whoever starts the service leaves open.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})
