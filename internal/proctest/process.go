package proctest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"testing"
)

// Start starts a program and kills it when the test ends. If the test fails, its output is logged.
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
		_ = cmd.Wait()         // reports the kill
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, output.String())
		}
	})
}

const (
	// Free ports are below those that systems give to connections and to listeners on port 0, which
	// could otherwise take the port of a server while it restarts. The port of the Cluster bus,
	// which is 10,000 higher, is also below 32,768.
	firstPort = 10_240
	lastPort  = 22_527
	portTries = 100
)

// FreeAddr returns a loopback address with a port that is free at the moment.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func freeAddr() (string, error) {
	for try := 1; ; try++ {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // not a secret
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		switch {
		case err == nil:
			return l.Addr().String(), l.Close()
		case try == portTries:
			return "", err
		}
	}
}
