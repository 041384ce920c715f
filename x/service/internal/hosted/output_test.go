package hosted

import (
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	letters := "abcdefghijklmnopqrstuvwxyz"
	for _, size := range []int{1, 3, 4, 7, 26} { // write size
		for length, want := range map[int]string{
			0: "", 5: "abcde", 9: "abcdefghi", 10: "abcd\n[1 bytes omitted]\nfghij", 26: "abcd\n[17 bytes omitted]\nvwxyz",
		} {
			o := newOutput(9)
			for rest := letters[:length]; rest != ""; {
				n, err := o.Write([]byte(rest[:min(size, len(rest))]))
				if err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if got := string(o.bytes()); got != want {
				t.Errorf("%d in writes of %d: got %q, want %q", length, size, got, want)
			}
		}
	}
	if o := newOutput(1); true {
		_, _ = o.Write([]byte(strings.Repeat("x", 100)))
		if got := string(o.bytes()); got != "\n[99 bytes omitted]\nx" {
			t.Errorf("got %q", got)
		}
	}
}
