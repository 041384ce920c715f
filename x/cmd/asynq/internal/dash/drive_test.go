package dash

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/charmbracelet/x/ansi"
)

// within is the timeout of each wait in a test.
const within = time.Minute

// driver runs the dashboard with its poller, without a terminal.
type driver struct {
	t    *testing.T
	m    *model
	msgs chan tea.Msg
	ctx  context.Context
}

func drive(t *testing.T, o *Options) *driver {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &driver{t: t, msgs: make(chan tea.Msg, 16), ctx: ctx}
	p := newPoller(o, d.post)
	p.refresh = o.Refresh // shorter than the minimum
	d.m = newModel(ctx, o, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	d.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	return d
}

func (d *driver) post(msg tea.Msg) {
	select {
	case d.msgs <- msg:
	case <-d.ctx.Done():
	}
}

// send passes a message to the model and runs the returned command.
func (d *driver) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	if cmd != nil {
		go func() { d.post(cmd()) }()
	}
}

// keys presses keys, separated by spaces.
func (d *driver) keys(keys string) {
	d.t.Helper()
	for key := range strings.FieldsSeq(keys) {
		d.send(keyNamed(key))
	}
}

func (d *driver) typed(text string) {
	for _, r := range text {
		d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
	"right": tea.KeyRight, "home": tea.KeyHome, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
	"space": tea.KeySpace, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "f1": tea.KeyF1, "f5": tea.KeyF5,
}

func keyNamed(key string) tea.KeyPressMsg {
	if name, ok := strings.CutPrefix(key, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(name[0]), Mod: tea.ModCtrl}
	}
	if name, ok := strings.CutPrefix(key, "shift+"); ok {
		return tea.KeyPressMsg{Code: named[name], Mod: tea.ModShift}
	}
	if code, ok := named[key]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	r, _ := utf8.DecodeRuneInString(key)
	return tea.KeyPressMsg{Code: r, Text: key}
}

// screen returns the screen as plain text.
func (d *driver) screen() string { return ansi.Strip(strings.Join(d.m.screen(), "\n")) }

// until processes messages until the condition holds.
func (d *driver) until(what string, condition func() bool) {
	d.t.Helper()
	late := time.After(within)
	for !condition() {
		select {
		case msg := <-d.msgs:
			if batch, ok := msg.(tea.BatchMsg); ok {
				for _, cmd := range batch {
					go func() { d.post(cmd()) }()
				}
				continue
			}
			d.send(msg)
		case <-late:
			d.t.Fatalf("%s: not within %v; the screen is\n%s", what, within, d.screen())
		}
	}
}

// see waits until all texts are on the screen.
func (d *driver) see(texts ...string) {
	d.t.Helper()
	d.until("seeing "+strings.Join(texts, ", "), func() bool {
		s := d.screen()
		for _, text := range texts {
			if !strings.Contains(s, text) {
				return false
			}
		}
		return true
	})
}

func (d *driver) lacks(texts ...string) {
	d.t.Helper()
	d.until("not seeing "+strings.Join(texts, ", "), func() bool {
		s := d.screen()
		for _, text := range texts {
			if strings.Contains(s, text) {
				return false
			}
		}
		return true
	})
}

// quick returns options with a short refresh interval.
func quick(c *asynq.Client, i *asynq.Inspector) *Options {
	return &Options{Inspector: i, Client: c, Refresh: 30 * time.Millisecond}
}
