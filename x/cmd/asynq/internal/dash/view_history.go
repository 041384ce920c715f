package dash

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/trends"
)

// historyInterval is how often statistics are read while they are on the screen: servers write them
// every few seconds.
const historyInterval = 10 * time.Second

// historySpans are the time ranges of a history, and the periods of its charts.
var historySpans = []struct {
	name         string
	length, step time.Duration
}{
	{"last hour", time.Hour, time.Minute},
	{"last 6 hours", 6 * time.Hour, 5 * time.Minute},
	{"last 48 hours", 48 * time.Hour, 30 * time.Minute},
	{"last 30 days", 30 * 24 * time.Hour, 12 * time.Hour},
}

// recorded are the statistics that servers recorded, of all queues or one, and of all task types or
// one.
type recorded struct {
	query  query
	at     time.Time
	points []trends.Point
	types  []*trends.Type // most attempts first
	queues []*asynq.TypeStats
}

// history reads the statistics of a page. With an error, they may be incomplete.
func (f fetcher) history(q query) (*recorded, error) {
	span, now := historySpans[q.span], time.Now()
	from := trends.Start(now, span.length, span.step)
	found := &recorded{query: q, at: now}
	types, err := f.insp.TypeStats(f.ctx, q.queue, from, time.Time{})
	if err != nil && len(types) == 0 {
		return found, err
	}
	if !q.ofType {
		found.types = trends.Types(types)
		points, err := f.insp.QueueHistory(f.ctx, q.queue, from, time.Time{})
		found.points = trends.OfQueues(points, from, now, span.step)
		return found, err
	}
	for _, s := range types {
		if s.Type == q.typename {
			found.queues = append(found.queues, s)
		}
	}
	points, err := f.insp.TypeHistory(f.ctx, q.queue, q.typename, from, time.Time{})
	found.points = trends.OfType(points, from, now, span.step)
	return found, err
}

// openHistory shows the statistics of the selected queue, or of all queues.
func (m *model) openHistory() {
	switch p := m.page(); p.view {
	case viewQueues:
		m.push(page{view: viewHistory, queue: m.target().queue})
	case viewTasks:
		m.push(page{view: viewHistory, queue: p.queue})
	}
}

// openType shows the statistics of a task type, over the same time.
func (m *model) openType(typename string) {
	p := m.page()
	m.push(page{view: viewHistory, queue: p.queue, typename: &typename, span: p.span})
}

// widen shows the next longer time range, and the shortest one after the longest.
func (m *model) widen() {
	if p := m.page(); p.view == viewHistory {
		p.span = (p.span + 1) % len(historySpans)
	}
}

// showHistory shows charts of the recorded statistics, and task types by their attempts; of a task
// type, its queues.
func (m *model) showHistory() listing {
	p := m.page()
	subject := "All queues"
	if p.queue != "" {
		subject = "Queue " + cleanLine(p.queue)
	}
	l := listing{crumb: m.theme.paint(dimTone, "History › ") + m.theme.paint(strongTone, subject), empty: "Loading …"}
	if p.typename != nil {
		l.crumb += m.theme.paint(dimTone, " › ") + m.theme.paint(strongTone, typeName(*p.typename))
	}
	span := historySpans[p.span]
	l.info = span.name
	b, ok, err := m.body()
	if err != nil {
		l.empty = cleanLine(err.Error())
	}
	if !ok || b.history == nil || b.history.points == nil {
		return l
	}
	if err == nil {
		l.empty = "No attempts were recorded in the " + span.name + "."
	} else {
		for _, part := range wrapWords("Incomplete: "+cleanLine(err.Error()), m.width-2) {
			l.head = append(l.head, " "+m.theme.paint(badTone, part))
		}
	}
	l.head = append(l.head, m.charts(b.history.points, span.step, p.typename != nil)...)
	l.cols = []column{
		{title: "TYPE", minWidth: 12, maxWidth: 40}, {title: "ATTEMPTS", right: true}, {title: "", rank: 5}, {title: "FAILED", right: true, rank: 1},
		{title: "FAILED %", right: true}, {title: "P50", right: true, rank: 3}, {title: "P95", right: true}, {title: "P99", right: true, rank: 4},
		{title: "WAIT P95", right: true, rank: 2}, {title: "TOTAL", right: true, rank: 3}, {title: "QUEUES", minWidth: 8, maxWidth: 30, rank: 6},
	}
	most := 1
	for _, t := range b.history.types {
		most = max(most, int(t.Attempts()))
	}
	for _, t := range b.history.types {
		l.rows = append(l.rows, statsRow(typeName(t.Name), most, &t.AttemptStats, ref{kind: refType, typ: t.Name}, cleanLine(strings.Join(t.Queues, " "))))
	}
	if p.typename == nil {
		return l
	}
	l.cols[0].title, l.cols[len(l.cols)-1].title = "QUEUE", ""
	for _, s := range b.history.queues {
		most = max(most, int(s.Attempts()))
	}
	for _, s := range b.history.queues {
		l.rows = append(l.rows, statsRow(cleanLine(s.Queue), most, &s.AttemptStats, ref{kind: refQueue, queue: s.Queue}, ""))
	}
	return l
}

// typeName names a task type, which is empty for types that are not counted by themselves.
func typeName(name string) string {
	if name == "" {
		return trends.Other
	}
	return cleanLine(name)
}

// statsRow is a row of a history: the attempts of a task type, or of a queue.
func statsRow(name string, most int, s *asynq.AttemptStats, target ref, queues string) row {
	attempts, failed := int(s.Attempts()), int(s.Failed())
	share := cell{text: "–", tone: dimTone}
	if attempts > 0 {
		percent := 100 * float64(failed) / float64(attempts)
		share = cell{text: fmt.Sprintf("%.1f", percent), tone: dimTone, value: percent}
		if failed > 0 {
			share.tone = badTone
		}
	}
	at := func(h *asynq.Histogram, q float64) cell {
		if h.Count() == 0 {
			return toned("–", dimTone)
		}
		return cell{text: span(h.Quantile(q)), value: h.Quantile(q)}
	}
	return row{key: target.typ + "\x00" + target.queue, ref: target, cells: []cell{
		toned(name, strongTone), count0(attempts, plainTone), toned(bar(attempts, most, 8), accentTone), count0(failed, badTone), share,
		at(&s.Duration, 0.5), at(&s.Duration, 0.95), at(&s.Duration, 0.99), at(&s.Wait, 0.95), {text: span(s.Duration.Sum()), value: s.Duration.Sum()},
		toned(queues, dimTone),
	}}
}

// chartsOf are the charts of a history, by name, in rows of three.
var chartsOf = [][]string{{"Attempts", "Failed", "Duration p95"}, {"Wait p95", "Pending", "Latency"}}

// charts draws the curves of a history, with the total or the last value of each.
func (m *model) charts(points []trends.Point, step time.Duration, ofType bool) []string {
	const between = 3
	w := (m.width - 2 - 2*between) / 3
	if w < 10 {
		return nil
	}
	shown := chartsOf
	if ofType || m.bodyHeight() < 16 {
		shown = shown[:1]
	}
	height := min(max(1, m.bodyHeight()/(len(shown)*4)), 5)
	var total trends.Point
	for n := range points {
		total.Merge(&points[n].AttemptStats)
		total.Known = total.Known || points[n].Known
		if points[n].Sizes != nil {
			total.Sizes = points[n].Sizes // the last ones
		}
	}
	if joined := (len(points) + w - 1) / w; joined > 1 {
		points, step = trends.Fold(points, joined), step*time.Duration(joined)
	}
	var lines []string
	for _, names := range shown {
		var panels [][]string
		for _, name := range names {
			c := curve(name)
			values := c.Values(points)
			now := "–"
			if v, known := c.Value(&total); known {
				now = curveText(c, v)
				if c.Rate {
					now = number(int(v))
				}
			}
			most := ""
			if v := trends.Max(values); v > 0 {
				most = "max " + curveText(c, v/perMinute(c, step))
			}
			panels = append(panels, m.panel(c.Name, now, most, stretch(values, w), styleTones[c.Style], w, height))
		}
		for y := range height + 1 {
			lines = append(lines, " "+strings.Join([]string{panels[0][y], panels[1][y], panels[2][y]}, strings.Repeat(" ", between)))
		}
	}
	return append(lines, "")
}

func curve(name string) *trends.Curve {
	for n := range trends.Curves {
		if trends.Curves[n].Name == name {
			return &trends.Curves[n]
		}
	}
	panic("dash: no curve " + name)
}

// perMinute returns what divides a value of a period for its text.
func perMinute(c *trends.Curve, step time.Duration) float64 {
	if c.Rate {
		return step.Minutes()
	}
	return 1
}

// curveText formats a value: a duration, a number per minute, or a number.
func curveText(c *trends.Curve, v float64) string {
	switch {
	case c.Time:
		return spanOf(v)
	case c.Rate:
		return short(v) + "/min"
	}
	return number(int(math.Round(v)))
}

var styleTones = map[out.Style]tone{out.Plain: waitTone, out.Good: accentTone, out.Bad: badTone, out.Warn: warnTone}

// stretch repeats each value so that a chart of w cells is as full as possible.
func stretch(values []float64, w int) series {
	times := max(1, w/max(1, len(values)))
	wide := make(series, 0, times*len(values))
	for _, v := range values {
		for range times {
			wide = append(wide, v)
		}
	}
	return wide
}
