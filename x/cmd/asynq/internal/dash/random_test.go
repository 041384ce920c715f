package dash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/charmbracelet/x/ansi"
)

// pressable are all keys with a function on some page, and others.
var pressable = strings.Fields(`up down left right enter esc tab shift+tab home end pgup pgdown space backspace delete f1 f5
	1 2 3 4 5 6 j k h l g G [ ] < > / ? v y y y n r a d c p e R A D E C F m m M s s S Y : : z ! t x q x 0 " { : é 世 🙂 ctrl+r ctrl+u ctrl+d ctrl+a ctrl+k ctrl+w`)

// TestRandomKeys presses random keys while a server, a scheduler and a client run, on screens of
// all sizes. Nothing may panic, and every screen must have the size of the terminal.
func TestRandomKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r asynq.RedisClientOpt) {
		client, insp := tools(t, r)
		lively(t, r, client)
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		var pressed []string
		defer func() {
			if t.Failed() {
				t.Logf("seed %d; the last keys were %v", seed, pressed[max(0, len(pressed)-40):])
			}
		}()
		d := drive(t, quick(client, insp))
		d.see("default")
		for i := range randomKeys {
			if i%50 == 0 {
				d.send(tea.WindowSizeMsg{Width: choose(rnd, 0, 1, 10, 24, 40, 80, 100, 140, 260), Height: choose(rnd, 0, 1, 4, 6, 10, 24, 30, 60)})
			}
			if i%97 == 0 {
				d.send(tea.PasteMsg{Content: "some text\nwith \x1b[31mescapes and " + strings.Repeat("length ", 50)})
			}
			if i%40 == 0 {
				seen := d.m.snap.at
				d.until("another poll", func() bool { return d.m.snap.at.After(seen) })
			}
			key := pressable[rnd.IntN(len(pressable))]
			pressed = append(pressed, key)
			d.press(keyNamed(key))
			d.drain()
			d.checkScreen()
			if t.Failed() {
				return
			}
		}
		d.keys("esc esc esc esc 1")
		d.send(tea.WindowSizeMsg{Width: 100, Height: 30})
		d.m.page().filter = ""
		d.see("All queues")
	})
}

func choose(rnd *rand.Rand, from ...int) int { return from[rnd.IntN(len(from))] }

// press is send without quitting.
func (d *driver) press(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	if cmd == nil {
		return
	}
	go func() {
		if got := cmd(); got != nil {
			if _, quit := got.(tea.QuitMsg); !quit {
				d.post(got)
			}
		}
	}()
}

// drain processes the pending messages without blocking. It is bounded, since on a slow machine new
// messages can arrive faster than it processes them.
func (d *driver) drain() {
	for range cap(d.msgs) {
		select {
		case msg := <-d.msgs:
			d.press(msg)
		default:
			return
		}
	}
}

func (d *driver) checkScreen() {
	d.t.Helper()
	m := d.m
	lines := m.screen()
	if m.width > 0 && m.height > 0 && len(lines) != m.height {
		d.t.Errorf("the screen has %d lines of %d:\n%s", len(lines), m.height, strings.Join(lines, "\n"))
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > m.width {
			d.t.Errorf("line %d takes %d cells of %d: %q", i, w, m.width, ansi.Strip(l))
		}
	}
}

// lively starts a server, a scheduler, and a client that enqueues tasks until the test ends.
func lively(t *testing.T, r asynq.RedisConnOpt, client *asynq.Client) {
	t.Helper()
	start(t, r, func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "fails":
			return fmt.Errorf("cannot reach 10.0.0.%d: \x1b[2Jrefused", rand.IntN(255))
		case "breaks":
			return errors.Join(errors.New("broken\nat line 7"), asynq.SkipRetry)
		default:
			return nil
		}
	}, "default", "mail")
	s := asynq.NewScheduler(r, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	for _, spec := range []string{"@every 1s", "0 3 * * *"} {
		if _, err := s.Register(spec, asynq.NewTask("periodic", []byte(spec)), asynq.Queue("mail")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	for i, typename := range []string{"x", "breaks"} {
		startFlow(t, client, flow.Chain(fmt.Sprint("chain\u00a0", i), asynq.NewTask(typename, nil), asynq.NewTask("x", nil)))
	}

	payloads := [][]byte{nil, []byte(`{"id":12345678901234567890,"x":[1.10,{"y":null}]}`), {0, 1, 0xff}, []byte("line\nline\x1b]0;title\a"), []byte(strings.Repeat("世", 5000))}
	enqueue(t, client, asynq.NewTask("ok", nil)) // creates the queue
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		every := time.NewTicker(5 * time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			opts := [][]asynq.Option{
				{asynq.Queue("mail"), asynq.Retention(time.Minute)}, {asynq.Queue("mail"), asynq.MaxRetry(0)}, {},
				{asynq.ProcessIn(time.Hour)}, {asynq.Group("g" + fmt.Sprint(i%3)), asynq.Queue("unserved")}, {asynq.Queue("unserved")},
			}[i%6]
			task := asynq.NewTaskWithHeaders([]string{"ok", "fails", "breaks", "ok\x1b[7m"}[i%4], payloads[i%len(payloads)], map[string]string{"k": "v\n"})
			_, _ = client.EnqueueContext(ctx, task, opts...) // the queue may be deleted, or the test may have ended
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}
