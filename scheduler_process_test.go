//go:build unix

package asynq_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// processLease is that of leaders in processes of their own. It is long enough that none loses the lead where the machine is busy.
const processLease = 3 * time.Second

// runCrashableScheduler is the main function of a process with a member of group g, to be killed. It prints a line once it leads.
func runCrashableScheduler() {
	opt, err := asynq.ParseRedisURI(os.Getenv(crashableSchedulerEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	told := false
	sched := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Group: "g", LogLevel: asynq.FatalLevel, PostEnqueueFunc: func(*asynq.TaskInfo, error) {
		if !told {
			told = true
			fmt.Println("leads")
		}
	}})
	sched.ShortenLease(processLease)
	if _, err = sched.RegisterFast(fast, asynq.MissedTicksDefault, asynq.NewTask("fast", nil)); err == nil {
		err = sched.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process that started this one ends
	os.Exit(0)
}

// startMember starts a process with a member of group g and waits until it leads.
func (s *site) startMember() *os.Process {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashableSchedulerEnv+"="+s.URI())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone already
		_ = cmd.Wait()         // tells that it was killed
		_ = stdin.Close()
	})
	leads := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			leads <- struct{}{}
		}
	}()
	receive(s, leads, "the process to lead")
	return cmd.Process
}

// Whether the leader's process is killed or frozen: no tick is lost, and none is enqueued twice, not even when it wakes up.
func TestGroupLeaderDies(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGSTOP": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				leader := s.startMember()
				b, entry := s.member(s.opt(), asynq.SchedulerOpts{})
				b.ShortenLease(processLease)
				s.start(b)
				s.awaitTicks(10)
				if b.Leads() {
					t.Fatal("two schedulers lead")
				}
				if err := leader.Signal(signal); err != nil {
					t.Fatal(err)
				}
				s.awaitLead(b)
				s.awaitTicks(15)
				if signal == syscall.SIGSTOP {
					if err := leader.Signal(syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
				}
				s.awaitTicks(15)
				if err := leader.Kill(); err != nil && signal == syscall.SIGSTOP {
					t.Error(err)
				}
				b.Shutdown()
				s.wantEachTickOnce(entry, 40)
			})
		})
	}
}
