//go:build !linux

package site

import "fmt"

// limitFiles returns ErrUnsupported: only Linux can limit the file sizes of another process.
func (n *Node) limitFiles(bytes uint64) error {
	if bytes == unlimited {
		return nil
	}
	return fmt.Errorf("a full disk for %s needs Linux: %w", n, ErrUnsupported)
}
