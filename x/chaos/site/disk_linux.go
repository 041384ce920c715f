package site

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// limitFiles bounds the size that files may have which the node writes to. A node that is down is left alone.
func (n *Node) limitFiles(bytes uint64) error {
	pid := n.PID()
	if pid == 0 {
		return nil
	}
	// The hard limit stays, as only root may raise that again.
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return gone(n, err)
	}
	limit.Cur = min(bytes, limit.Max)
	return gone(n, unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// gone drops the error of a node that has ended in the meantime.
func gone(n *Node, err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("limiting the files of %s: %w", n, err)
}
