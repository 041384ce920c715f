package incidents_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal: its end for a program, and the one of its user.
func openTerminal(t *testing.T, columns, lines int) (program, user *os.File) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatalf("opening a pseudo-terminal: %v", err)
		}
	}
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	fail(err)
	t.Cleanup(func() { _ = user.Close() }) // may be closed already
	fd := int(user.Fd())
	fail(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	fail(err)
	fail(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(lines), Col: uint16(columns)})) //nolint:gosec // small
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	fail(err)
	t.Cleanup(func() { _ = program.Close() }) // may be closed already
	return program, user
}
