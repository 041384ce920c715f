package dash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/exp/teatest/v2"
)

// paper is a terminal that records output and signals each write.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newPaper() *paper { return &paper{more: make(chan struct{}, 1)} }

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return p.text.Write(b)
}

// wait waits until a text is written.
func (p *paper) wait(t *testing.T, text string) {
	t.Helper()
	late := time.After(within)
	for {
		p.mu.Lock()
		found := bytes.Contains(p.text.Bytes(), []byte(text))
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-p.more:
		case <-late:
			t.Fatalf("%q was not written, only %q", text, p.text.String())
		}
	}
}

func TestRunUntilQuit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("x", nil), asynq.Queue("mail"))
		in, keys := io.Pipe()
		out := newPaper()
		done := make(chan error, 1)
		go func() {
			done <- Run(t.Context(), Options{Inspector: insp, Client: client, Refresh: MinRefresh, In: in, Out: out})
		}()
		out.wait(t, "asynq dash")
		if _, err := keys.Write([]byte("q")); err != nil {
			t.Fatal(err)
		}
		if err := ended(t, done); err != nil {
			t.Errorf("quitting returned %v", err)
		}
	})
}

func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		t.Fatal("Run does not return")
		return nil
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, insp := tools(t, asynq.RedisClientOpt{Addr: "127.0.0.1:1"})
	ctx, cancel := context.WithCancelCause(t.Context())
	out := newPaper()
	in, _ := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, Options{Inspector: insp, In: in, Out: out}) }()
	out.wait(t, "asynq dash")
	cause := errors.New("enough")
	cancel(cause)
	if err := ended(t, done); !errors.Is(err, cause) {
		t.Errorf("Run returned %v, want %v", err, cause)
	}
}

func TestRunRequiresInspector(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), Options{}); err == nil {
		t.Error("no error")
	}
}

// TestInProgram runs the model in a Bubble Tea program, from keys to terminal
// output.
func TestInProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		enqueue(t, client, asynq.NewTask("email:send", []byte(`{"user":1}`)), asynq.Queue("mail"))
		ctx, cancel := context.WithCancel(t.Context())
		msgs := make(chan tea.Msg)
		p := newPoller(&Options{Inspector: insp, Refresh: MinRefresh}, func(msg tea.Msg) {
			select {
			case msgs <- msg:
			case <-ctx.Done():
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() { p.run(ctx) })
		t.Cleanup(func() {
			cancel()
			wg.Wait()
		})
		tm := teatest.NewTestModel(t, newModel(ctx, quick(client, insp), p), teatest.WithInitialTermSize(100, 30))
		wg.Go(func() {
			for {
				select {
				case msg := <-msgs:
					tm.Send(msg)
				case <-ctx.Done():
					return
				}
			}
		})
		shown := func(text string) {
			t.Helper()
			teatest.WaitFor(t, tm.Output(), func(b []byte) bool { return bytes.Contains(b, []byte(text)) }, teatest.WithDuration(within))
		}
		shown("no server")
		tm.Send(tea.KeyPressMsg{Code: tea.KeyEnter})
		shown("email:send")
		tm.Type("d")
		shown("This cannot be undone.")
		tm.Type("y")
		shown("deleted task")
		tm.Type("q")
		tm.WaitFinished(t, teatest.WithFinalTimeout(within))
	})
}
