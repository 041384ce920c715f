package hosted

import (
	"errors"
	"math"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the program when the service dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// reap waits until a program has ended, and calls cleanUp before the PID can be reused.
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

// closeInheritedFiles marks files that the service inherited as close-on-exec. Files that the
// service opens are so already.
var closeInheritedFiles = sync.OnceFunc(func() {
	// Kernels before 5.11 do not support it: programs inherit the files there.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})
