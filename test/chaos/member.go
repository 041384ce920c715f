package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/test/chaos/child"
	"github.com/asynq-go/asynq/test/chaos/history"
	"github.com/asynq-go/asynq/test/chaos/network"
	"github.com/asynq-go/asynq/test/chaos/node"
	"github.com/asynq-go/asynq/test/chaos/skew"
)

const (
	restartDelay = 100 * time.Millisecond // like a supervisor that detects an exit
	stopTimeout  = 20 * time.Second       // timeout of a terminated node
)

// member is a node that is restarted when it dies before it is done.
type member struct {
	name    string
	program string
	config  node.Config // of the first process
	dir     string      // histories and logs
	log     *history.Writer
	proxy   *network.Proxy

	mu          sync.Mutex
	incarnation int
	cmd         *exec.Cmd // nil between two processes and when done
	stdin       io.Closer
	gone        chan struct{} // closed when this process has exited
	done        chan struct{} // closed when it will not be restarted
	stopping    bool          // do not restart
}

// startMember starts a node.
func startMember(program, dir string, order *node.Config, log *history.Writer) (*member, error) {
	proxy, err := network.Start()
	if err != nil {
		return nil, err
	}
	m := &member{name: order.Process, program: program, config: *order, dir: dir, log: log, proxy: proxy, done: make(chan struct{})}
	m.config.Proxy, m.config.History = proxy.Addr(), dir
	if err := m.start(); err != nil {
		proxy.Close()
		return nil, err
	}
	return m, nil
}

// start starts the next process.
func (m *member) start() error {
	order := m.config
	if p := order.Producer; p != nil {
		rest := *p
		rest.First += m.offered()
		if order.Producer = &rest; rest.First > rest.Last {
			close(m.done)
			return nil
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.incarnation++
	order.Process = m.process()
	env, err := order.Env()
	if err != nil {
		return err
	}
	cmd := exec.Command(m.program)
	cmd.Env = append(os.Environ(), env, skew.Env(order.Skew))
	child.OwnGroup(cmd)
	output, err := os.OpenFile(filepath.Join(m.dir, m.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if m.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", order.Process, err)
	}
	m.log.Write(history.Event{Kind: history.Born, Process: order.Process})
	m.cmd, m.gone = cmd, make(chan struct{})
	go m.await(order.Process, cmd, m.gone)
	return nil
}

// await waits until the process exits and starts the next one.
func (m *member) await(process string, cmd *exec.Cmd, gone chan struct{}) {
	err := cmd.Wait()
	m.log.Write(history.Event{Kind: history.Died, Process: process})
	m.mu.Lock()
	m.cmd = nil
	leaving := m.stopping || m.config.Producer != nil && err == nil && m.offered() >= m.config.Producer.Last-m.config.Producer.First+1
	m.mu.Unlock()
	close(gone)
	if leaving {
		close(m.done)
		return
	}
	time.Sleep(restartDelay)
	m.mu.Lock()
	leaving = m.stopping
	m.mu.Unlock()
	if leaving {
		close(m.done)
	} else if err := m.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		close(m.done)
	}
}

// offered returns the number of tasks that a producer has offered in all its processes.
func (m *member) offered() int {
	n := 0
	for life := 1; life <= m.incarnation; life++ {
		count, err := history.Count(m.dir, m.name+"."+strconv.Itoa(life), history.Offered)
		if err == nil { // otherwise it was killed before it could write
			n += count
		}
	}
	return n
}

// process returns the name of the current process in the history.
func (m *member) process() string { return m.name + "." + strconv.Itoa(m.incarnation) }

// signal sends a signal to the current process and returns its name; "" if there is none.
func (m *member) signal(sig syscall.Signal) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil || child.Signal(m.cmd.Process.Pid, sig) != nil {
		return ""
	}
	return m.process()
}

// waitGone waits until the current process has exited.
func (m *member) waitGone() {
	m.mu.Lock()
	gone := m.gone
	m.mu.Unlock()
	<-gone
}

// stop terminates a node permanently. If it does not exit in time, stop kills it and returns
// an error.
func (m *member) stop() error {
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	m.proxy.Resume()
	m.signal(syscall.SIGCONT)
	m.signal(syscall.SIGTERM)
	var err error
	select {
	case <-m.done:
	case <-time.After(stopTimeout):
		err = fmt.Errorf("%s did not exit within %v", m.name, stopTimeout)
		m.signal(syscall.SIGKILL)
		<-m.done
	}
	m.proxy.Close()
	return err
}

// stopAll terminates all nodes concurrently.
func stopAll(members []*member) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = m.stop() })
	}
	all.Wait()
	return errors.Join(errs...)
}
