package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/asynq-go/asynq/x/chaos/child"
)

const (
	configFile = "redis.conf"
	logFile    = "output.log"

	// patience is how long a node may take to start or to end, and a site to do what is expected of it.
	patience = 60 * time.Second
	// replyWithin is how long a node may take to answer to the harness.
	replyWithin = 3 * time.Second
	// lastLog is how much of a log is returned, in bytes.
	lastLog = 64 << 10
)

// Node is one server: of data, or a Sentinel. It keeps its port and its folder when it is started again.
type Node struct {
	site     *Site
	name     string
	port     int
	addr     string
	dir      string
	sentinel bool
	client   *redis.Client
	sizes    samples

	mu   sync.Mutex
	proc *process // nil before the first start
}

// process is one life of a node. What is in it but frozen never changes.
type process struct {
	cmd    *exec.Cmd
	over   chan struct{} // closed when it is gone
	frozen bool
}

func (p *process) runs() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

func newNode(s *Site, name string, port int) *Node {
	n := &Node{site: s, name: name, port: port, dir: filepath.Join(s.opts.Dir, name)}
	n.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	n.client = redis.NewClient(&redis.Options{
		Addr: n.addr, MaxRetries: -1, DialTimeout: replyWithin, ReadTimeout: replyWithin, WriteTimeout: replyWithin,
		DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true, PoolSize: 8,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return n
}

// Name says which of the site's nodes it is, such as "redis2" or "sentinel1". It does not change with the node's role.
func (n *Node) Name() string { return n.name }

// Addr is the node's host:port.
func (n *Node) Addr() string { return n.addr }

// String is the node's name and address.
func (n *Node) String() string { return n.name + " (" + n.addr + ")" }

// Dir is the node's folder.
func (n *Node) Dir() string { return n.dir }

// Client is a client of this node alone. It repeats nothing. Site.Close closes it.
func (n *Node) Client() *redis.Client { return n.client }

// PID is the process id of the node, 0 while it is down.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.runs() {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Alive reports whether the node runs and is not frozen.
func (n *Node) Alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc.runs() && !n.proc.frozen
}

// Log is the end of what all the lives of the node have printed, up to 64 KB.
func (n *Node) Log() string {
	b, err := os.ReadFile(filepath.Join(n.dir, logFile))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-lastLog):])
}

// Start starts the node, and returns when it has loaded its data and answers. If it runs already, Start only waits for that.
// It does not wait for the other nodes to see that it is back.
func (n *Node) Start(ctx context.Context) error {
	p, err := n.launched()
	if err != nil {
		return fmt.Errorf("starting %s: %w", n, err)
	}
	err = until(ctx, n.name+" to answer", func(ctx context.Context) error {
		select {
		case <-p.over:
			return final{n.why()}
		default:
			return n.answers(ctx, p.cmd.Process.Pid)
		}
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", n, err)
	}
	return nil
}

// launched returns the node's process, a new one unless it runs.
func (n *Node) launched() (*process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc.runs() {
		return n.proc, nil
	}
	err := n.launch()
	return n.proc, err
}

// launch starts the process. The caller holds the lock.
func (n *Node) launch() error {
	n.sizes.begin(n.aofSizes())
	output, err := os.OpenFile(filepath.Join(n.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	args := []string{"-c", `trap "" XFSZ; exec "$0" "$@"`, n.site.opts.Binary, filepath.Join(n.dir, configFile)}
	if n.sentinel {
		args = append(args, "--sentinel")
	}
	// DiskFull limits the sizes of files: the signal that comes with that would end a server before it sees the error.
	cmd := exec.Command("/bin/sh", args...)
	// Through a pipe, as such a limit is not to hold for the log.
	cmd.Stdout = pipeTo{output}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second // children of a killed server may hold the pipe
	child.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, output.Close())
	}
	p := &process{cmd: cmd, over: make(chan struct{})}
	n.proc = p
	go func() {
		_ = cmd.Wait() // whoever ended it knows why, and the log tells
		_ = output.Close()
		close(p.over)
	}()
	return nil
}

// pipeTo hides that a log is a file: os/exec would hand that to the process itself.
type pipeTo struct{ *os.File }

// why is the error of a node that ended by itself.
func (n *Node) why() error {
	log := n.Log()
	err := fmt.Errorf("it has ended:\n%s", log[max(0, len(log)-2000):])
	if strings.Contains(log, "ddress already in use") {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// answers checks that the process is the one that answers on the node's port, and has loaded its data.
func (n *Node) answers(ctx context.Context, pid int) error {
	// go-redis logs each connection that it cannot make.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return err
	}
	_ = conn.Close() // it was only to see whether somebody listens
	info, err := n.info(ctx, "server")
	if err != nil {
		return err
	}
	if got := info.number("process_id"); got != int64(pid) {
		return final{fmt.Errorf("%w: process %d answers on it", errPortTaken, got)}
	}
	if n.sentinel {
		return nil
	}
	if info, err = n.info(ctx, "persistence"); err != nil {
		return err
	}
	if info["loading"] != "0" {
		return errors.New("it is loading its data")
	}
	return nil
}

// Kill ends the node with SIGKILL, as a crash of its process would, and waits until it is gone. What Redis had not written to its
// AOF yet is lost: with EverySecond that may be what it has answered in the last two seconds (see Restart).
func (n *Node) Kill() error { return n.endWith(syscall.SIGKILL) }

// Stop ends the node in good order, with SIGTERM, and waits until it is gone.
func (n *Node) Stop() error {
	if err := n.Thaw(); err != nil { // it would not see the signal
		return err
	}
	return n.endWith(syscall.SIGTERM)
}

func (n *Node) endWith(sig syscall.Signal) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if !p.runs() {
		return nil
	}
	if err := child.Signal(p.cmd.Process.Pid, sig); err != nil && p.runs() {
		return fmt.Errorf("ending %s: %w", n, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.over:
		return nil
	case <-late.C:
		return fmt.Errorf("%s has not ended %s after %v", n, patience, sig)
	}
}

// close ends the node for good.
func (n *Node) close() {
	_ = n.Kill() // the only thing left to do with it
	_ = n.client.Close()
}

// Freeze stops the node's process with SIGSTOP: its connections stay, and what is sent to it waits.
func (n *Node) Freeze() error { return n.pause(syscall.SIGSTOP, true) }

// Thaw lets a frozen node go on. One that is not frozen it leaves alone.
func (n *Node) Thaw() error { return n.pause(syscall.SIGCONT, false) }

func (n *Node) pause(sig syscall.Signal, frozen bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.runs() {
		if frozen {
			return fmt.Errorf("%s is down: it cannot be frozen", n)
		}
		return nil
	}
	if err := child.Signal(n.proc.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("sending %s to %s: %w", sig, n, err)
	}
	n.proc.frozen = frozen
	return nil
}
