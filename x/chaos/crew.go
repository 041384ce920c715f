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

	"github.com/asynq-go/asynq/x/chaos/child"
	"github.com/asynq-go/asynq/x/chaos/history"
	"github.com/asynq-go/asynq/x/chaos/network"
	"github.com/asynq-go/asynq/x/chaos/node"
	"github.com/asynq-go/asynq/x/chaos/skew"
)

const (
	reviveAfter = 100 * time.Millisecond // a supervisor takes about as long to see that a process is gone
	endWithin   = 20 * time.Second       // a node that was told to end
)

// member is a node, in all its lives: it is started again when it dies before it is done.
type member struct {
	name    string
	program string
	order   node.Order // of the first life
	dir     string     // of histories and logs
	log     *history.Writer
	proxy   *network.Proxy

	mu      sync.Mutex
	life    int
	cmd     *exec.Cmd // nil: it is between two lives, or done
	stdin   io.Closer
	gone    chan struct{} // closed when this life is over
	done    chan struct{} // closed when there is no next one
	leaving bool          // it is not to be started again
}

// hire starts a node.
func hire(program, dir string, order *node.Order, log *history.Writer) (*member, error) {
	proxy, err := network.Start()
	if err != nil {
		return nil, err
	}
	m := &member{name: order.Process, program: program, order: *order, dir: dir, log: log, proxy: proxy, done: make(chan struct{})}
	m.order.Proxy, m.order.History = proxy.Addr(), dir
	if err := m.start(); err != nil {
		proxy.Close()
		return nil, err
	}
	return m, nil
}

// start begins the next life.
func (m *member) start() error {
	order := m.order
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
	m.life++
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
		return fmt.Errorf("starting %s: %w", order.Process, err)
	}
	m.log.Write(history.Event{Kind: history.Born, Process: order.Process})
	m.cmd, m.gone = cmd, make(chan struct{})
	go m.await(order.Process, cmd, m.gone)
	return nil
}

// await waits for the end of a life, and begins the next.
func (m *member) await(process string, cmd *exec.Cmd, gone chan struct{}) {
	err := cmd.Wait()
	m.log.Write(history.Event{Kind: history.Died, Process: process})
	m.mu.Lock()
	m.cmd = nil
	leaving := m.leaving || m.order.Producer != nil && err == nil && m.offered() >= m.order.Producer.Last-m.order.Producer.First+1
	m.mu.Unlock()
	close(gone)
	if leaving {
		close(m.done)
		return
	}
	time.Sleep(reviveAfter)
	m.mu.Lock()
	leaving = m.leaving
	m.mu.Unlock()
	if leaving {
		close(m.done)
	} else if err := m.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		close(m.done)
	}
}

// offered is how many tasks a producer has offered in all its lives.
func (m *member) offered() int {
	n := 0
	for life := 1; life <= m.life; life++ {
		count, err := history.Count(m.dir, m.name+"."+strconv.Itoa(life), history.Offered)
		if err == nil { // else it was killed before it could write
			n += count
		}
	}
	return n
}

// process is the name of this life in the history.
func (m *member) process() string { return m.name + "." + strconv.Itoa(m.life) }

// signal sends a signal to the current life, and returns its name, "" if there is none.
func (m *member) signal(sig syscall.Signal) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil || child.Signal(m.cmd.Process.Pid, sig) != nil {
		return ""
	}
	return m.process()
}

// over waits until the current life is.
func (m *member) over() {
	m.mu.Lock()
	gone := m.gone
	m.mu.Unlock()
	<-gone
}

// dismiss ends a node for good: in good order, or if that takes too long by a kill, which is an error.
func (m *member) dismiss() error {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.proxy.Resume()
	m.signal(syscall.SIGCONT)
	m.signal(syscall.SIGTERM)
	var err error
	select {
	case <-m.done:
	case <-time.After(endWithin):
		err = fmt.Errorf("%s did not end within %v", m.name, endWithin)
		m.signal(syscall.SIGKILL)
		<-m.done
	}
	m.proxy.Close()
	return err
}

// dismissAll ends all nodes at once.
func dismissAll(members []*member) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = m.dismiss() })
	}
	all.Wait()
	return errors.Join(errs...)
}
