package worker

import (
	"testing"
	"unsafe"
)

// An attempt fits into a size class of the allocator, 512 bytes: the next one has 576.
func TestAttemptSize(t *testing.T) {
	if size := unsafe.Sizeof(Attempt{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 512 {
		t.Errorf("an attempt has %d bytes", size)
	}
}
