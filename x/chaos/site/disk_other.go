//go:build !linux

package site

import "fmt"

// limitFiles would bound the size of the files that the node writes to, which only Linux can do for another process.
func (n *Node) limitFiles(bytes uint64) error {
	if bytes == unlimited {
		return nil
	}
	return fmt.Errorf("a full disk for %s needs Linux: %w", n, ErrNotHere)
}
