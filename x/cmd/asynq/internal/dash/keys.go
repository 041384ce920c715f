package dash

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
)

const filterLimit = 300

// press handles a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	m.toast = cell{}
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case m.help:
		m.help = false
		return nil
	case m.dialog != nil:
		return m.answer(k, key)
	case m.form != nil:
		return m.pressForm(k, key)
	case m.prompt != nil:
		return m.pressPrompt(k, key)
	case m.input != nil:
		return m.pressFilter(k, key)
	}
	if m.navigate(key) {
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "?", "f1":
		m.help = true
	case "/":
		return m.startFilter()
	case "esc", "backspace":
		m.back()
	case "ctrl+r", "f5":
		m.source.refreshNow()
	case ":":
		return m.startJump()
	case "m":
		m.mark()
	case "M":
		m.markAll()
	case "s":
		m.sortNext()
	case "S":
		m.sortOther()
	case "y", "Y":
		return m.yank(key == "Y")
	case "o":
		m.reverse()
	case "!":
		m.seeErrors()
	case "P":
		m.openPartitions()
	case "F":
		m.openFlows()
	case "H":
		m.openHistory()
	case "w":
		m.widen()
	case "v":
		if r := m.target(); r.kind == refCause && m.page().view != viewCause {
			m.showEvidence(r.id)
			return nil
		}
		m.mode = (m.mode + 1) % modes
	case "enter":
		m.open()
	default:
		return m.requestAction(key)
	}
	return nil
}

// navigate handles the keys that move the cursor or switch pages. It returns false for other keys.
func (m *model) navigate(key string) bool {
	at, screen := m.at(), max(1, m.shown.visible(m.bodyHeight())-1)
	switch key {
	case "up", "k":
		m.move(at - 1)
	case "down", "j":
		m.move(at + 1)
	case "pgup", "ctrl+u", "ctrl+b":
		m.move(at - screen)
	case "pgdown", "ctrl+d", "ctrl+f", "space":
		m.move(at + screen)
	case "home", "g":
		m.move(0)
	case "end", "G":
		m.move(max(len(m.shown.rows), len(m.shown.doc)) - 1)
	case "tab":
		m.switchTab((m.tab + 1) % tabs)
	case "shift+tab":
		m.switchTab((m.tab + tabs - 1) % tabs)
	case "1", "2", "3", "4", "5", "6":
		m.switchTab(view(key[0] - '1'))
	case "left", "h", "right", "l", "[", "]", "<", ">":
		m.switchTasks(key)
	default:
		return false
	}
	return true
}

func (m *model) switchTab(v view) { m.tab, m.stack = v, nil }

// switchTasks switches to another state, queue or page of tasks.
func (m *model) switchTasks(key string) {
	p := m.page()
	if p.view == viewFlows {
		m.turnFlows(key)
	}
	if p.view != viewTasks {
		return
	}
	switch key {
	case "left", "h":
		m.listTasks(p.queue, step(states, p.state, -1), "")
	case "right", "l":
		m.listTasks(p.queue, step(states, p.state, 1), "")
	case "[":
		m.listTasks(step(m.queueNames(), p.queue, -1), p.state, "")
	case "]":
		m.listTasks(step(m.queueNames(), p.queue, 1), p.state, "")
	case "<":
		if p.number > 0 {
			p.number--
			m.move(0)
		}
	case ">":
		if _, last := m.pageRange(); !last {
			p.number++
			m.move(0)
		}
	}
}

// step returns the element by positions after from, wrapping around, or the first element if from
// is missing.
func step[T comparable](all []T, from T, by int) T {
	for i, v := range all {
		if v == from {
			return all[(i+by+len(all))%len(all)]
		}
	}
	if len(all) == 0 {
		return from
	}
	return all[0]
}

func (m *model) queueNames() []string {
	if m.snap == nil {
		return nil
	}
	names := make([]string, 0, len(m.snap.queues))
	for _, q := range m.snap.queues {
		names = append(names, q.name)
	}
	return names
}

// listTasks shows the tasks of a queue and state on the task page.
func (m *model) listTasks(queue string, state asynq.TaskState, group string) {
	p := &m.pages[viewTasks]
	p.queue, p.state, p.group, p.number = queue, state, group, 0
	p.key, p.row, p.top = "", 0, 0
}

// listQueue shows a queue on the task page, in the current state or, if it has no such tasks, in
// the first state with tasks.
func (m *model) listQueue(queue string) {
	state := m.pages[viewTasks].state
	if q := m.queue(queue); q != nil && count(q, state) == 0 {
		for _, s := range states {
			if count(q, s) > 0 {
				state = s
				break
			}
		}
	}
	m.listTasks(queue, state, "")
}

// open opens the selected row.
func (m *model) open() {
	r, ok := m.selected()
	if !ok {
		return
	}
	switch r.ref.kind {
	case refQueue:
		m.openQueue(r.ref.queue)
	case refGroup:
		m.switchTab(viewTasks)
		m.pages[viewTasks].filter = ""
		m.listTasks(r.ref.queue, asynq.TaskStateAggregating, r.ref.group)
	case refTask:
		m.push(page{view: viewTask, queue: r.ref.queue, id: r.ref.id})
	case refEntry:
		m.push(page{view: viewEntry, id: r.ref.id})
	case refError:
		m.push(page{view: viewError, id: r.ref.id})
	case refCause:
		m.openCause(r.ref.id)
	case refLink:
		m.follow(r.ref.link)
	case refType:
		m.openType(r.ref.typ)
	case refFlow:
		m.push(page{view: viewFlow, id: r.ref.id})
	case refNodeTask:
		m.push(page{view: viewTask, queue: r.ref.queue, id: r.ref.task})
	}
}

func (m *model) push(p page) { m.stack = append(m.stack, p) }

// back stops the search, clears the filter, or closes the page, whichever comes first.
func (m *model) back() {
	p := m.page()
	b, _, _ := m.body()
	switch {
	case b.found != nil && b.found.running:
		m.source.stopSearch()
	case len(m.marks.keys) > 0:
		m.marks = marks{}
	case p.filter != "":
		m.setFilter("")
	case len(m.stack) > 0:
		m.stack = m.stack[:len(m.stack)-1]
	case p.view == viewTasks && p.group != "":
		m.switchTab(viewGroups)
	case p.view != viewQueues:
		m.switchTab(viewQueues)
	}
}

// setFilter sets the filter and returns to the first page.
func (m *model) setFilter(text string) {
	p := m.page()
	p.filter, p.number = text, 0
}

// reverse reverses the order of tasks.
func (m *model) reverse() {
	if p := m.page(); p.view == viewTasks {
		p.reverse, p.number = !p.reverse, 0
		m.move(0)
	}
}

func (m *model) startFilter() tea.Cmd {
	if m.shown.isDoc {
		return nil
	}
	m.before = m.page().filter
	in := m.newInput(m.before)
	in.CharLimit = filterLimit
	m.input = &in
	m.resizeInputs()
	return in.Focus()
}

// pressFilter edits the filter. Rows on the screen are filtered while the user types, tasks in
// Redis when the user presses enter.
func (m *model) pressFilter(k tea.KeyPressMsg, key string) tea.Cmd {
	live := m.page().view != viewTasks
	switch key {
	case "esc":
		m.setFilter(m.before)
		m.input = nil
		return nil
	case "enter":
		m.setFilter(strings.TrimSpace(m.input.Value()))
		m.input = nil
		return nil
	}
	cmd := m.toInput(k)
	if live {
		m.setFilter(strings.TrimSpace(m.input.Value()))
	}
	return cmd
}

// toInput passes a message to the focused input, if any.
func (m *model) toInput(msg tea.Msg) tea.Cmd {
	in := m.input
	if m.dialog != nil {
		in = m.dialog.typed
	} else if m.form != nil {
		in = &m.form.fields[m.form.focus].input
	}
	if in == nil {
		return nil
	}
	var cmd tea.Cmd
	*in, cmd = in.Update(msg)
	return cmd
}

func (m *model) newInput(value string) textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	styles := textinput.DefaultLightStyles()
	if m.dark {
		styles = textinput.DefaultDarkStyles()
	}
	styles.Cursor.Blink = false
	in.SetStyles(styles)
	in.SetValue(value)
	return in
}

func (m *model) resizeInputs() {
	if m.input != nil {
		m.input.SetWidth(max(1, m.width-6))
	}
	if m.dialog != nil && m.dialog.typed != nil {
		m.dialog.typed.SetWidth(max(1, m.boxWidth()-6))
	}
	if m.form != nil {
		for i := range m.form.fields {
			m.form.fields[i].input.SetWidth(max(1, m.boxWidth()-labelWidth-6))
		}
	}
}
