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

	"github.com/asynq-go/asynq/test/chaos/child"
)

const (
	configFile = "redis.conf"
	logFile    = "output.log"

	// timeout limits the start and stop of a node, and the recovery of a site.
	timeout = 60 * time.Second
	// replyTimeout is the timeout of commands of the harness.
	replyTimeout = 3 * time.Second
	// lastLog is the maximum size of a returned log in bytes.
	lastLog = 64 << 10
)

// Node is a Redis server or a Sentinel. It keeps its port and directory across restarts.
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

// process is one process of a node. Its fields, except frozen, do not change.
type process struct {
	cmd    *exec.Cmd
	over   chan struct{} // closed when it has exited
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
		Addr: n.addr, MaxRetries: -1, DialTimeout: replyTimeout, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout,
		DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true, PoolSize: 8,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return n
}

// Name returns the name of the node, such as "redis2" or "sentinel1". It does not depend on its
// role.
func (n *Node) Name() string { return n.name }

// Addr returns the host:port of the node.
func (n *Node) Addr() string { return n.addr }

// String returns the name and address of the node.
func (n *Node) String() string { return n.name + " (" + n.addr + ")" }

// Dir returns the directory of the node.
func (n *Node) Dir() string { return n.dir }

// Client returns a client of this node without retries. Site.Close closes it.
func (n *Node) Client() *redis.Client { return n.client }

// PID returns the process ID of the node; 0 while it is down.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.runs() {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Alive reports whether the node is running and not frozen.
func (n *Node) Alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc.runs() && !n.proc.frozen
}

// Log returns the end of the output of all processes of the node, up to 64 KB.
func (n *Node) Log() string {
	b, err := os.ReadFile(filepath.Join(n.dir, logFile))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-lastLog):])
}

// Start starts the node, if it is not running, and returns when it has loaded its data and
// responds. It does not wait for other nodes to detect it.
func (n *Node) Start(ctx context.Context) error {
	p, err := n.launched()
	if err != nil {
		return fmt.Errorf("start %s: %w", n, err)
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
		return fmt.Errorf("start %s: %w", n, err)
	}
	return nil
}

// launched returns the process of the node, and starts one if needed.
func (n *Node) launched() (*process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc.runs() {
		return n.proc, nil
	}
	err := n.launch()
	return n.proc, err
}

// launch starts the process. The caller must hold the lock.
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
	// DiskFull limits file sizes: ignore the signal, which would end the server before it sees the
	// error.
	cmd := exec.Command("/bin/sh", args...)
	// Use a pipe, because the limit must not apply to the log.
	cmd.Stdout = pipeTo{output}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Second // children of a killed server may keep the pipe open
	child.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, output.Close())
	}
	p := &process{cmd: cmd, over: make(chan struct{})}
	n.proc = p
	go func() {
		_ = cmd.Wait() // the log contains the reason
		_ = output.Close()
		close(p.over)
	}()
	return nil
}

// pipeTo hides that a log is a file, which os/exec would pass to the process directly.
type pipeTo struct{ *os.File }

// why returns the error of a node that exited by itself.
func (n *Node) why() error {
	log := n.Log()
	err := fmt.Errorf("exited:\n%s", log[max(0, len(log)-2000):])
	if strings.Contains(log, "ddress already in use") {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// answers checks that the process responds on the port of the node and has loaded its data.
func (n *Node) answers(ctx context.Context, pid int) error {
	// go-redis logs failed connections.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return err
	}
	_ = conn.Close() // only checks the port
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
		return errors.New("loading data")
	}
	return nil
}

// Kill kills the node with SIGKILL, like a crash, and waits until it has exited. Data that Redis
// had not written to its AOF is lost: with EverySecond, up to two seconds of acknowledged writes
// (see Restart).
func (n *Node) Kill() error { return n.endWith(syscall.SIGKILL) }

// Stop terminates the node with SIGTERM and waits until it has exited.
func (n *Node) Stop() error {
	if err := n.Thaw(); err != nil { // a frozen process does not handle the signal
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
		return fmt.Errorf("stop %s: %w", n, err)
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-p.over:
		return nil
	case <-late.C:
		return fmt.Errorf("%s has not exited %s after %v", n, timeout, sig)
	}
}

// close kills the node permanently.
func (n *Node) close() {
	_ = n.Kill() // best effort
	_ = n.client.Close()
}

// Freeze stops the process with SIGSTOP: its connections stay open, and data sent to it waits.
func (n *Node) Freeze() error { return n.pause(syscall.SIGSTOP, true) }

// Thaw resumes a frozen node. It is a no-op if the node is not frozen.
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
		return fmt.Errorf("send %s to %s: %w", sig, n, err)
	}
	n.proc.frozen = frozen
	return nil
}
