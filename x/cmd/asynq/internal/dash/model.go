package dash

import (
	"context"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// toastDuration is how long the outcome of an action stays on the screen.
	toastDuration = 6 * time.Second
	// slowAfter is how long a poll may take before the screen shows a warning.
	slowAfter = 2 * time.Second
)

// source is the interface of the poller that the model uses. Its methods do not block.
type source interface {
	setQuery(query)
	refreshNow()
	stopSearch()
}

type tickMsg time.Time

// model is the state of the dashboard. Only Update changes it.
type model struct {
	ctx      context.Context // for commands: Bubble Tea passes them no context
	insp     *asynq.Inspector
	client   *asynq.Client
	refresh  time.Duration
	readOnly bool
	where    string // Options.Target
	user     string // Options.User
	context  string // to type in confirmations; "" if the context is not protected
	source   source
	clock    func() time.Time
	zone     *time.Location

	dark   bool
	theme  theme
	width  int
	height int

	tab   view
	pages [tabs]page
	stack []page // pages opened from the tab, the last one on top
	sent  query
	shown listing
	mode  payloadMode

	snap    *snapshot // the latest one; nil before the first poll
	history history
	health  *health.Report // the latest one; nil before the first check
	polling time.Time      // start of the poll in flight; zero if there is none
	err     error          // error of the last poll

	help   bool
	dialog *dialog
	form   *form
	input  *textinput.Model // the filter being typed
	before string           // the previous filter
	marks  marks

	prompt    *prompt // what the input is for; nil if it is the filter
	editor    []string
	runEditor runEditor

	toast      cell
	toastUntil time.Time
	busy       int // actions in flight
}

func newModel(ctx context.Context, o *Options, s source) *model {
	m := &model{
		ctx: ctx, insp: o.Inspector, client: o.Client, refresh: refreshOf(*o), readOnly: o.ReadOnly,
		where: cleanLine(o.Target), user: o.User, source: s, clock: time.Now, zone: time.Local, dark: true, theme: newTheme(true),
	}
	m.editor, m.runEditor = o.Editor, inTerminal
	if o.Protected {
		m.context = o.Context
	}
	for v := range tabs {
		m.pages[v] = page{view: v, state: asynq.TaskStatePending}
	}
	m.updateListing()
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
		m.setSnapshot(&msg)
	case healthMsg:
		m.health = msg.report
	case preparedMsg:
		cmd = m.actionPrepared(msg)
	case jumpMsg:
		m.jumped(msg)
	case editedMsg:
		cmd = m.edited(msg)
	case doneMsg:
		m.actionDone(msg)
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	default: // pastes and cursor blinks of inputs
		cmd = m.toInput(msg)
	}
	m.updateListing()
	return m, cmd
}

func (m *model) setSnapshot(s *snapshot) {
	m.polling, m.err = time.Time{}, nil
	if m.snap == nil || s.at.After(m.snap.at) {
		m.history.add(&s.base, m.refresh)
	}
	m.snap = s
	if m.pages[viewTasks].queue == "" && len(s.queues) > 0 {
		m.listQueue(s.queues[0].name)
	}
}

// page returns the page on the screen.
func (m *model) page() *page {
	if n := len(m.stack); n > 0 {
		return &m.stack[n-1]
	}
	return &m.pages[m.tab]
}

// body returns the data of the page on the screen, or the error that prevented reading it. ok
// reports whether the data of this page has been fetched.
func (m *model) body() (b *body, ok bool, err error) {
	if m.snap == nil || m.snap.query != m.page().query() {
		return &body{}, false, nil
	}
	return &m.snap.body, true, m.snap.err
}

// updateListing computes the visible rows from the latest snapshot, requests missing data from the
// poller, and keeps the cursor on its row.
func (m *model) updateListing() {
	p := m.page()
	if q := p.query(); q != m.sent || m.snap == nil {
		m.sent = q
		m.source.setQuery(q)
	}
	m.shown = m.listing()
	l := &m.shown
	if l.isDoc {
		p.top = min(max(0, p.top), max(0, len(l.doc)-m.bodyHeight()))
		return
	}
	lead := len(l.pane.rows)
	l.cursor = p.locate(l.rows, lead)
	// If the row of the cursor is gone, the cursor moves to the row in its place.
	if len(l.rows) > 0 && p.key != "" {
		p.row, p.key = l.cursor, l.rows[l.cursor].key
	}
	p.top = window(p.top, max(0, l.cursor-lead), len(l.rows)-lead, l.visible(m.bodyHeight()))
}

// locate returns the index of the row with the cursor, which starts below the first rows.
func (p *page) locate(rows []row, first int) int {
	if p.key == "" && p.row == 0 {
		return min(first, max(0, len(rows)-1))
	}
	if p.key != "" && (p.row >= len(rows) || p.row < 0 || rows[p.row].key != p.key) {
		for i, r := range rows {
			if r.key == p.key {
				p.row = i
				return i
			}
		}
		if strings.HasPrefix(p.key, causeKey) { // the cause is gone: stay above the queues
			if first == 0 {
				p.key, p.row = "", 0
			}
			return min(max(0, p.row), max(0, first-1))
		}
	}
	return min(max(0, p.row), max(0, len(rows)-1))
}

// window scrolls the first visible row as little as needed to show the cursor, without blank lines.
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

// move moves the cursor to a row. The cursor then follows this row, except that it stays at the top
// if it is on the first row, of those below causes.
func (m *model) move(to int) {
	p, l := m.page(), &m.shown
	if l.isDoc {
		p.top = to
		return
	}
	p.row = min(max(0, to), max(0, len(l.rows)-1))
	p.key = ""
	switch {
	case p.row == len(l.pane.rows):
		p.row = 0
	case p.row < len(l.rows):
		p.key = l.rows[p.row].key
	}
}

// at returns the position of the cursor or, in a document, of the top of the screen.
func (m *model) at() int {
	if m.shown.isDoc {
		return m.page().top
	}
	return m.shown.cursor
}

// selected returns the row with the cursor.
func (m *model) selected() (row, bool) {
	l := &m.shown
	if l.isDoc || l.cursor >= len(l.rows) {
		return row{}, false
	}
	return l.rows[l.cursor], true
}

// now returns the time of the Redis clock, or the local time before the first snapshot.
func (m *model) now() time.Time {
	if m.snap == nil {
		return m.clock()
	}
	return m.snap.redisAt.Add(m.clock().Sub(m.snap.at))
}

func (m *model) showToast(text string, t tone) {
	m.toast, m.toastUntil = toned(cleanLine(text), t), m.clock().Add(toastDuration)
}

// queue returns the info of a queue from the latest snapshot, or nil.
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
