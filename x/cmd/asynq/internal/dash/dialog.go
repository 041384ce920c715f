package dash

import (
	"context"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// preparedMsg is an action that is ready for confirmation.
type preparedMsg struct {
	action *action
	err    error
}

// doneMsg is the outcome of an action.
type doneMsg struct {
	text string
	all  bool // the text is valid even with an error
	err  error
}

// dialog asks for confirmation of an action: for y, or for a text to type.
type dialog struct {
	action

	typed *textinput.Model // nil if y confirms
}

// prompt is a line that asks for a text.
type prompt struct {
	label string
	done  func(text string) tea.Cmd
}

// startPrompt asks for a text.
func (m *model) startPrompt(label string, done func(text string) tea.Cmd) tea.Cmd {
	in := m.newInput("")
	in.CharLimit = filterLimit
	m.input, m.prompt = &in, &prompt{label: label, done: done}
	m.resizeInputs()
	return in.Focus()
}

// pressPrompt handles a key in the prompt.
func (m *model) pressPrompt(k tea.KeyPressMsg, key string) tea.Cmd {
	switch key {
	case "esc":
		m.input, m.prompt = nil, nil
		return nil
	case "enter":
		text, done := strings.TrimSpace(m.input.Value()), m.prompt.done
		m.input, m.prompt = nil, nil
		return done(text)
	}
	return m.toInput(k)
}

// askFor asks for the text of an action, and then for confirmation.
func (m *model) askFor(a *action) tea.Cmd {
	return m.startPrompt(a.question+" ", func(text string) tea.Cmd {
		if text == "" {
			m.showToast("nothing was changed", dimTone)
			return nil
		}
		a, err := a.with(text)
		if err != nil {
			m.showToast(err.Error(), warnTone)
			return nil
		}
		return m.confirm(a)
	})
}

// confirm opens the dialog that asks for confirmation of an action.
func (m *model) confirm(a *action) tea.Cmd {
	m.dialog = &dialog{action: *a}
	if m.context != "" {
		m.dialog.name = m.context
	}
	if m.dialog.name == "" {
		return nil
	}
	in := m.newInput("")
	in.CharLimit = filterLimit
	m.dialog.typed = &in
	m.resizeInputs()
	return in.Focus()
}

// prepare computes the side effects of an action in the background before the confirmation.
func (m *model) prepare(a *action) tea.Cmd {
	m.busy++
	m.showToast("counting "+a.of+" …", dimTone)
	ctx := m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
		defer cancel()
		var err error
		a.warning, err = a.prepare(ctx)
		return preparedMsg{action: a, err: err}
	}
}

// actionPrepared asks for confirmation of an action, unless another dialog or input is open.
func (m *model) actionPrepared(msg preparedMsg) tea.Cmd {
	m.busy = max(0, m.busy-1)
	switch {
	case msg.err != nil:
		m.showToast("failed: "+msg.err.Error(), badTone)
	case m.dialog != nil || m.form != nil || m.input != nil || m.help:
		m.showToast("not started, try again: "+msg.action.verb+" "+msg.action.of, warnTone)
	default:
		m.toast = cell{}
		return m.confirm(msg.action)
	}
	return nil
}

// answer handles a key in the dialog. Only "y" confirms, or the text that the dialog asks for.
func (m *model) answer(k tea.KeyPressMsg, key string) tea.Cmd {
	if d := m.dialog; d.typed != nil {
		switch {
		case key == "esc":
			key = "n"
		case key != "enter":
			return m.toInput(k)
		case strings.TrimSpace(d.typed.Value()) == d.name:
			key = "y"
		default:
			return nil
		}
	}
	switch key {
	case "y", "Y":
		a := m.dialog.action
		m.dialog = nil
		return m.runAction(&a)
	case "n", "N", "esc", "q", "enter":
		m.dialog = nil
		m.showToast("nothing was changed", dimTone)
	}
	return nil
}

// runAction runs an action in the background.
func (m *model) runAction(a *action) tea.Cmd {
	m.busy++
	m.showToast(a.verb+" "+a.of+" …", dimTone)
	ctx, within, do, all := m.ctx, actionTimeout, a.do, a.all
	if a.all {
		within = bulkTimeout
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		text, err := do(ctx)
		return doneMsg{text: text, all: all, err: err}
	}
}

func (m *model) actionDone(msg doneMsg) {
	m.busy = max(0, m.busy-1)
	m.marks = marks{}
	switch {
	case msg.err == nil:
		m.showToast(msg.text, goodTone)
	case msg.text == "":
		m.showToast(msg.err.Error(), badTone)
	case msg.all:
		m.showToast(msg.text+", then failed: "+msg.err.Error(), badTone)
	default:
		m.showToast("failed: "+msg.err.Error(), badTone)
	}
	m.source.refreshNow()
}
