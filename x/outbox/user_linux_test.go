package outbox_test

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// runAsUser makes a command run as an unprivileged user, who owns a directory, if this process is
// root: Postgres and MariaDB refuse root.
func runAsUser(cmd *exec.Cmd, dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}
