package network_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/asynq-go/asynq/test/chaos/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a proxy in front of an echo server.
type rig struct {
	t      *testing.T
	proxy  *network.Proxy
	server string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	p, err := network.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &rig{t, p, l.Addr().String()}
}

// conn is a connection through the proxy that has echoed a line.
func (r *rig) conn() (net.Conn, *bufio.Reader) {
	r.t.Helper()
	conn, err := network.Dial(context.Background(), r.proxy.Addr(), r.server)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	r.echo(conn, in)
	return conn, in
}

func (r *rig) echo(conn net.Conn, in *bufio.Reader) {
	r.t.Helper()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		r.t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); line != "hello\n" || err != nil {
		r.t.Fatalf("got %q, error %v", line, err)
	}
}

func TestCut(t *testing.T) {
	r := newRig(t)
	_, in := r.conn()
	r.proxy.Cut()
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is not cut")
	}
	r.conn()
}

func TestHalve(t *testing.T) {
	r := newRig(t)
	conn, in := r.conn()
	r.proxy.Halve()
	if _, err := io.WriteString(conn, "12345678"); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(in)
	if len(got) > 4 || string(got) != "12345678"[:len(got)] { // the reply may be cut entirely
		t.Errorf("got %q", got)
	}
	r.conn()
}

func TestBlackhole(t *testing.T) {
	r := newRig(t)
	conn, in := r.conn()
	r.proxy.Blackhole()
	r.proxy.Blackhole()
	if _, err := io.WriteString(conn, "late\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := in.ReadByte(); err == nil {
		t.Errorf("%q came through a blackhole", b)
	}
	r.proxy.Resume()
	r.proxy.Resume()
	_ = conn.SetReadDeadline(time.Time{})
	if line, err := in.ReadString('\n'); line != "late\n" || err != nil {
		t.Errorf("what was held back: %q, error %v", line, err)
	}
}

func TestDelay(t *testing.T) {
	r := newRig(t)
	conn, in := r.conn()
	const delay = 30 * time.Millisecond
	r.proxy.Delay(delay)
	start := time.Now()
	r.echo(conn, in)
	if took := time.Since(start); took < 2*delay {
		t.Errorf("there and back took %v", took)
	}
}

func TestServerAway(t *testing.T) {
	r := newRig(t)
	conn, err := network.Dial(context.Background(), r.proxy.Addr(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection to nowhere stays open")
	}
	_ = conn.Close()
}

func TestCloseInBlackhole(t *testing.T) {
	r := newRig(t)
	conn, in := r.conn()
	r.proxy.Blackhole()
	if _, err := io.WriteString(conn, "lost\n"); err != nil {
		t.Fatal(err)
	}
	r.proxy.Close()
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection outlives the proxy")
	}
	if _, err := network.Dial(context.Background(), r.proxy.Addr(), r.server); err == nil {
		t.Error("the proxy can still be reached")
	}
}
