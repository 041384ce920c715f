package redistest

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and a Redis, and breaks their connections as a network would.
type Proxy struct {
	target   string
	listener net.Listener
	commands atomic.Int64
	accepted atomic.Int64
	conns    sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]struct{}
	faults  []*Fault
	delay   time.Duration
	down    bool
	resumed chan struct{} // closed unless in a blackhole
	closed  bool
}

// Fault is something that happens to commands that contain certain words.
type Fault struct {
	words [][]byte
	left  int
	reply []byte        // sent in place of Redis's own; nil: the connection is cut before there is a reply
	lost  bool          // the command does not reach Redis
	done  chan struct{} // closed when left is 0
}

// Done is closed when the fault has happened as often as it was to.
func (f *Fault) Done() <-chan struct{} { return f.done }

// StartProxy starts a proxy before the Redis at the address, which is closed when the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, links: make(map[*link]struct{}), resumed: make(chan struct{})}
	close(p.resumed)
	p.conns.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// Addr is the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Commands is how many commands have come so far, each in a pipeline counted, but none of a script.
func (p *Proxy) Commands() int64 { return p.commands.Load() }

// Connections is how many connections clients have made so far, those refused by Down included.
func (p *Proxy) Connections() int64 { return p.accepted.Load() }

// SwallowReplies lets Redis execute the next n commands that contain all the words, but cuts their
// connections in place of the reply, and of those to commands sent after it.
func (p *Proxy) SwallowReplies(n int, words ...string) *Fault {
	return p.add(&Fault{left: n}, words)
}

// LoseCommands cuts the connections of the next n commands that contain all the words before Redis
// sees them.
func (p *Proxy) LoseCommands(n int, words ...string) *Fault {
	return p.add(&Fault{left: n, lost: true}, words)
}

// Answer gives clients a reply in Redis's place, such as "-OOM full\r\n", to the next n commands
// that contain all the words. No other command may wait for its reply on the same connection.
func (p *Proxy) Answer(n int, reply string, words ...string) *Fault {
	return p.add(&Fault{left: n, lost: true, reply: []byte(reply)}, words)
}

func (p *Proxy) add(f *Fault, words []string) *Fault {
	f.done = make(chan struct{})
	for _, w := range words {
		f.words = append(f.words, []byte(w))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// Cut closes all connections; new ones can be made.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Delay holds back every command and every reply for so long.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Down closes all connections, and new ones as soon as they are made, until Resume.
func (p *Proxy) Down() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Cut()
}

// Blackhole holds back all that is sent in either direction, until Resume delivers it. Connections
// can be made.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
		p.resumed = make(chan struct{})
	default:
	}
}

// Resume ends Down, Blackhole, Delay and all faults.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.delay, p.faults = false, 0, nil
	p.release()
}

// release ends a blackhole. The caller holds the lock.
func (p *Proxy) release() {
	select {
	case <-p.resumed:
	default:
		close(p.resumed)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.release()
	p.mu.Unlock()
	_ = p.listener.Close() // the test is over
	p.Cut()
	p.conns.Wait()
}

func (p *Proxy) accept() {
	defer p.conns.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		p.conns.Add(1)
		go func() {
			defer p.conns.Done()
			p.serve(client)
		}()
	}
}

// link is a client's connection and the one to Redis that belongs to it.
type link struct {
	client, server net.Conn
	swallowing     atomic.Bool
}

func (l *link) cut() {
	_ = l.client.Close() // either may be closed already
	_ = l.server.Close()
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // as Redis would be gone
		return
	}
	l := &link{client: client, server: server}
	defer l.cut()
	p.mu.Lock()
	refused := p.down || p.closed
	if !refused {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		return
	}
	replied := make(chan struct{})
	go func() {
		defer close(replied)
		p.copyReplies(l)
	}()
	p.copyCommands(l)
	if l.swallowing.Load() {
		// What Redis has got it executes, if the connection is not reset before.
		_ = server.(*net.TCPConn).CloseWrite() // may have been cut
	} else {
		l.cut()
	}
	<-replied
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// hold waits as Delay and Blackhole say.
func (p *Proxy) hold() {
	p.mu.Lock()
	delay, resumed := p.delay, p.resumed
	p.mu.Unlock()
	<-resumed
	if delay > 0 {
		time.Sleep(delay)
	}
}

// executed is the reply to a command that the proxy adds behind one whose reply it swallows.
// Without it, a reply to an earlier command of the pipeline would cut the connection too early.
const executed = "executed"

func (p *Proxy) copyReplies(l *link) {
	buf := make([]byte, 64<<10)
	var swallowed []byte
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			p.hold()
			if l.swallowing.Load() {
				if swallowed = append(swallowed, buf[:n]...); bytes.Contains(swallowed, []byte(executed)) {
					_ = l.client.Close()
				}
			} else if _, err := l.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = l.client.Close() // ends copyCommands
			return
		}
	}
}

func (p *Proxy) copyCommands(l *link) {
	in, out := bufio.NewReaderSize(l.client, 64<<10), bufio.NewWriter(l.server)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		p.commands.Add(1)
		p.hold()
		f := p.fault(command)
		switch {
		case f == nil:
		case f.reply != nil:
			if _, err := l.client.Write(f.reply); err != nil {
				return
			}
			continue
		case f.lost:
			l.cut()
			return
		default:
			l.swallowing.Store(true)
			command = append(command, "*2\r\n$4\r\nECHO\r\n$8\r\n"+executed+"\r\n"...)
		}
		if _, err := out.Write(command); err != nil {
			return
		}
		if in.Buffered() == 0 {
			if out.Flush() != nil {
				return
			}
		}
	}
}

// fault returns the fault that happens to a command, nil if none does.
func (p *Proxy) fault(command []byte) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.left > 0 && f.concerns(command) {
			if f.left--; f.left == 0 {
				close(f.done)
			}
			return f
		}
	}
	return nil
}

func (f *Fault) concerns(command []byte) bool {
	for _, w := range f.words {
		if !bytes.Contains(command, w) {
			return false
		}
	}
	return true
}

// readCommand reads one command as clients send it, an array of bulk strings.
func readCommand(in *bufio.Reader) ([]byte, error) {
	command, n, err := readHead(in, nil)
	for range n {
		var size int
		if command, size, err = readHead(in, command); err != nil {
			return nil, err
		}
		start := len(command)
		command = append(command, make([]byte, size+len("\r\n"))...)
		if _, err = io.ReadFull(in, command[start:]); err != nil {
			return nil, err
		}
	}
	return command, err
}

// readHead reads a line such as *3 or $5, appends it to command, and returns the number in it.
func readHead(in *bufio.Reader, command []byte) ([]byte, int, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, 0, err
	}
	text := bytes.TrimSpace(line)
	if len(text) < 2 {
		return nil, 0, io.ErrUnexpectedEOF
	}
	n, err := strconv.Atoi(string(text[1:]))
	return append(command, line...), n, err
}
