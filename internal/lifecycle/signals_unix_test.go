//go:build unix

package lifecycle_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/lifecycle"
)

// SIGTERM and SIGINT end Wait; before, SIGTSTP calls the function. However often SIGTSTP comes
// while the function runs, a signal that ends is received.
func TestSignals(t *testing.T) {
	own := make(chan os.Signal, 1) // or the signals end the test
	signal.Notify(own, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTSTP)
	defer signal.Stop(own)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		stopped, resume, returned := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(returned)
			signals := lifecycle.Notify(func() {
				select {
				case stopped <- struct{}{}:
				default:
				}
				<-resume
			})
			defer signals.Close()
			signals.Wait(nil)
		}()
		for waiting := true; waiting; { // at first, nothing may wait for the signal
			send(t, syscall.SIGTSTP)
			select {
			case <-stopped:
				waiting = false
			case <-time.After(time.Millisecond):
			}
		}
		select {
		case <-returned:
			t.Fatal("Wait returned after SIGTSTP")
		default:
		}
		drain(own)
		send(t, syscall.SIGTSTP)
		<-own        // it was delivered
		send(t, end) // once: a second one could end the next Wait
		close(resume)
		<-returned
	}
}

// Wait returns when the channel is closed, without a signal.
func TestWaitOrDone(t *testing.T) {
	done := make(chan struct{})
	close(done)
	signals := lifecycle.Notify(nil)
	defer signals.Close()
	signals.Wait(done)
}

// A signal that comes before Wait ends it.
func TestSignalBeforeWait(t *testing.T) {
	signals := lifecycle.Notify(nil)
	defer signals.Close()
	send(t, syscall.SIGTERM)
	signals.Wait(nil)
}

func send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

func drain(signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
		default:
			return
		}
	}
}
