package site

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// limitFiles limits the size of files that the node writes. It is a no-op if the node is down.
func (n *Node) limitFiles(bytes uint64) error {
	pid := n.PID()
	if pid == 0 {
		return nil
	}
	// Keep the hard limit: only root may raise it again.
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return gone(n, err)
	}
	limit.Cur = min(bytes, limit.Max)
	return gone(n, unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// gone ignores the error of a node that has exited.
func gone(n *Node, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("limiting the files of %s: %w", n, err)
}
