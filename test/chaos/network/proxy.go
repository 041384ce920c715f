// Package network provides a proxy between a process and all Redis servers that injects network
// faults.
package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// dialTimeout is the timeout of connections to local servers.
const dialTimeout = 2 * time.Second

// Proxy forwards connections made by Dial.
type Proxy struct {
	listener net.Listener
	pipes    sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]struct{}
	delay   time.Duration
	resumed chan struct{} // closed except during a blackhole
	closed  bool
}

// link is a connection through the proxy.
type link struct {
	near, far net.Conn
	half      bool // deliver half of the next bytes in either direction, then close
}

// Start starts a proxy on a loopback port.
func Start() (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	p := &Proxy{listener: l, links: make(map[*link]struct{}), resumed: make(chan struct{})}
	close(p.resumed)
	p.pipes.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy for Dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Dial connects to a server through a proxy, which reads the address of the server from the first
// line.
func Dial(ctx context.Context, proxy, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, addr+"\n"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Cut closes all connections. New ones can be made.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Halve delivers half of the next data on each connection, in either direction, and then closes it.
func (p *Proxy) Halve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.half = true
	}
}

// Delay delays all data in both directions; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Blackhole blocks all data in both directions until Resume delivers it. New connections can be
// made.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
		p.resumed = make(chan struct{})
	default:
	}
}

// Resume ends a blackhole.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
	default:
		close(p.resumed)
	}
}

// Close closes the proxy and all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // no new connections
	p.Cut()
	p.Resume()
	p.pipes.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pipes.Go(func() { p.serve(conn) })
	}
}

// serve forwards one connection until either end closes it.
func (p *Proxy) serve(near net.Conn) {
	l := &link{near: near}
	if !p.add(l) {
		l.close()
		return
	}
	defer p.remove(l)
	in := bufio.NewReader(near)
	addr, err := in.ReadString('\n')
	if err != nil {
		return
	}
	far, err := net.DialTimeout("tcp", strings.TrimSpace(addr), dialTimeout)
	if err != nil {
		return // closes the near end
	}
	p.mu.Lock()
	l.far = far
	p.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { p.copy(l, near, far) })
	p.copy(l, far, in)
	back.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.links, l)
}

// copy forwards one direction of a connection. When it ends, the other direction ends.
func (p *Proxy) copy(l *link, to io.Writer, from io.Reader) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			half := p.hold(l)
			if half {
				n /= 2
			}
			if _, err := to.Write(buf[:n]); err != nil || half {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits while data must not be delivered, and reports whether to deliver half of it.
func (p *Proxy) hold(l *link) bool {
	p.mu.Lock()
	delay, resumed, half := p.delay, p.resumed, l.half
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	<-resumed
	return half
}

// close must be called with the proxy locked.
func (l *link) close() {
	_ = l.near.Close() // fails only if already closed
	if l.far != nil {
		_ = l.far.Close()
	}
}
