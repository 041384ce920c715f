package proctest

import (
	"bytes"
	"net"
	"os/exec"
	"testing"
)

// Start starts a program that is killed when the test ends. What it printed is in the test's log if that fails.
func Start(t testing.TB, name string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // tells that it was killed
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, output.String())
		}
	})
}

// FreeAddr is a loopback address on which nobody listens now.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
