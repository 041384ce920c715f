package dash

import (
	"context"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
)

const (
	// toastFor is how long the outcome of an action stays on the screen.
	toastFor = 6 * time.Second
	// slowAfter is how long a look at Redis may take before the screen tells.
	slowAfter = 2 * time.Second
)

// watcher is the poller as the model knows it. Its methods never wait.
type watcher interface {
	look(want)
	poke()
}

type tickMsg time.Time

// model is all that the screen shows. Only Update changes it.
type model struct {
	ctx      context.Context // for commands, to which Bubble Tea hands none
	insp     *asynq.Inspector
	client   *asynq.Client
	refresh  time.Duration
	readOnly bool
	watcher  watcher
	clock    func() time.Time
	zone     *time.Location

	dark   bool
	theme  theme
	width  int
	height int

	tab   view
	pages [tabs]page
	stack []page // what was opened from the tab, the last on top
	sent  want
	shown listing
	mode  payloadMode

	snap    *snapshot // the last one; nil until there is one
	history history
	polling time.Time // when the look began that is under way; zero if none is
	err     error     // why the last look failed

	help   bool
	dialog *dialog
	form   *form
	input  *textinput.Model // the filter while it is typed
	before string           // the filter before

	toast      cell
	toastUntil time.Time
	busy       int // actions under way
}

func newModel(ctx context.Context, o *Options, w watcher) *model {
	m := &model{
		ctx: ctx, insp: o.Inspector, client: o.Client, refresh: refreshOf(*o), readOnly: o.ReadOnly,
		watcher: w, clock: time.Now, zone: time.Local, dark: true, theme: newTheme(true),
	}
	for v := range tabs {
		m.pages[v] = page{view: v, state: asynq.TaskStatePending}
	}
	m.arrange()
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(tea.RequestBackgroundColor, tick()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.resizeInputs()
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
		m.theme = newTheme(m.dark)
	case tickMsg:
		cmd = tick()
	case pollingMsg:
		m.polling = msg.at
	case failedMsg:
		m.polling, m.err = time.Time{}, msg.err
	case snapshot:
		m.take(&msg)
	case doneMsg:
		m.done(msg)
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	default: // pastes, and what makes the cursor of an input blink
		cmd = m.toInput(msg)
	}
	m.arrange()
	return m, cmd
}

func (m *model) take(s *snapshot) {
	m.polling, m.err = time.Time{}, nil
	if m.snap == nil || s.at.After(m.snap.at) {
		m.history.add(&s.base, m.refresh)
	}
	m.snap = s
	if m.pages[viewTasks].queue == "" && len(s.queues) > 0 {
		m.listQueue(s.queues[0].name)
	}
}

// page is what is on the screen.
func (m *model) page() *page {
	if n := len(m.stack); n > 0 {
		return &m.stack[n-1]
	}
	return &m.pages[m.tab]
}

// body is what is known for the page on the screen, and why there is nothing; ok says that something was fetched for it.
func (m *model) body() (b *body, ok bool, err error) {
	if m.snap == nil || m.snap.want != m.page().want() {
		return &body{}, false, nil
	}
	return &m.snap.body, true, m.snap.err
}

// arrange computes what is to be seen from all that is known, asks the poller for what is missing, and keeps the cursor on its row.
func (m *model) arrange() {
	p := m.page()
	if w := p.want(); w != m.sent || m.snap == nil {
		m.sent = w
		m.watcher.look(w)
	}
	m.shown = m.listing()
	l := &m.shown
	if l.isDoc {
		p.top = min(max(0, p.top), max(0, len(l.doc)-m.bodyHeight()))
		return
	}
	l.cursor = p.locate(l.rows)
	// Where the row has gone that the cursor was on, it stays with the one that took its place.
	if len(l.rows) > 0 && p.key != "" {
		p.row, p.key = l.cursor, l.rows[l.cursor].key
	}
	p.top = window(p.top, l.cursor, len(l.rows), l.room(m.bodyHeight()))
}

// locate finds the row that the cursor is on.
func (p *page) locate(rows []row) int {
	if p.key != "" && (p.row >= len(rows) || p.row < 0 || rows[p.row].key != p.key) {
		for i, r := range rows {
			if r.key == p.key {
				p.row = i
				return i
			}
		}
	}
	return min(max(0, p.row), max(0, len(rows)-1))
}

// window moves the first row on the screen as little as shows the cursor, and leaves no room empty.
func window(top, cursor, n, h int) int {
	h = max(1, h)
	if cursor < top {
		top = cursor
	}
	if cursor >= top+h {
		top = cursor - h + 1
	}
	return min(max(0, top), max(0, n-h))
}

// move puts the cursor on a row, and has it stay with that; on the first one it stays at the top, whatever comes there.
func (m *model) move(to int) {
	p, l := m.page(), &m.shown
	if l.isDoc {
		p.top = to
		return
	}
	p.row = min(max(0, to), max(0, len(l.rows)-1))
	p.key = ""
	if p.row > 0 && p.row < len(l.rows) {
		p.key = l.rows[p.row].key
	}
}

// at is where the cursor or, in a document, the top of the screen is.
func (m *model) at() int {
	if m.shown.isDoc {
		return m.page().top
	}
	return m.shown.cursor
}

// selected is the row that the cursor is on.
func (m *model) selected() (row, bool) {
	l := &m.shown
	if l.isDoc || l.cursor >= len(l.rows) {
		return row{}, false
	}
	return l.rows[l.cursor], true
}

// now is the time by the clock of Redis, as far as that is known.
func (m *model) now() time.Time {
	if m.snap == nil {
		return m.clock()
	}
	return m.snap.redisAt.Add(m.clock().Sub(m.snap.at))
}

func (m *model) say(text string, t tone) {
	m.toast, m.toastUntil = toned(cleanLine(text), t), m.clock().Add(toastFor)
}

// queue tells what is known of a queue; nil if nothing.
func (m *model) queue(name string) *asynq.QueueInfo {
	if m.snap == nil {
		return nil
	}
	for _, q := range m.snap.queues {
		if q.name == name {
			return q.info
		}
	}
	return nil
}
