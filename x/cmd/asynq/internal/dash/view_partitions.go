package dash

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/internal/share"
)

// mostPartitions is the number of partitions that a page reads.
const mostPartitions = 5000

// partitions reads the partitions of a queue with held or active tasks, by key.
func (f fetcher) partitions(q query) (body, error) {
	var found []*asynq.PartitionInfo
	for p, err := range f.insp.Partitions(f.ctx, q.queue) {
		if err != nil {
			return body{partitions: found}, err
		}
		if found = append(found, p); len(found) == mostPartitions {
			break
		}
	}
	return body{partitions: found}, nil
}

// openPartitions shows the partitions of the selected queue.
func (m *model) openPartitions() {
	p := m.page()
	queue := m.target().queue
	if p.view == viewTasks {
		queue = p.queue
	}
	if queue != "" && (p.view == viewQueues || p.view == viewTasks) {
		m.push(page{view: viewPartitions, queue: queue, sortBy: "HELD", falling: true})
	}
}

// listPartitions shows the partitions of a queue.
func (m *model) listPartitions() listing {
	p := m.page()
	l := listing{crumb: m.theme.paint(dimTone, "Partitions › ") + m.theme.paint(strongTone, cleanLine(p.queue)), empty: "Loading …"}
	b, ok, err := m.body()
	switch {
	case err != nil:
		l.empty = cleanLine(err.Error())
	case ok:
		l.empty = "No partition has held or active tasks."
	}
	l.cols = []column{
		{title: "PARTITION", minWidth: 12, maxWidth: 60}, {title: "HELD", right: true}, {title: "", rank: 4}, {title: "ACTIVE", right: true},
		{title: "WAIT", right: true}, {title: "SHARE %", right: true, rank: 2}, {title: "NOTE", rank: 1}, {title: "OWN LIMITS", rank: 3, minWidth: 8, maxWidth: 40},
	}
	held, most, shares := 0, 1, share.Of(p.queue, m.snap.servers)
	for _, p := range b.partitions {
		held, most = held+p.Held, max(most, p.Held)
		shares.Add(p)
	}
	for _, p := range b.partitions {
		l.rows = append(l.rows, partitionRow(p, most, shares.Part(p)))
	}
	if ok && err == nil {
		l.info = plural(len(b.partitions), "partition") + " · " + plural(held, "held task")
		if len(b.partitions) == mostPartitions {
			l.info = "the first " + l.info
		}
	}
	return l
}

// partitionRow is a row of a partition; most is the largest number of held tasks, and share its
// share of the queue while all listed partitions have tasks, 0 if it is unknown.
func partitionRow(p *asynq.PartitionInfo, most int, share float64) row {
	name := toned(cleanLine(p.Key), strongTone)
	if p.Key == "" {
		name = toned("(no key)", dimTone)
	}
	wait, note := toned("–", dimTone), toned("", dimTone)
	if p.Held > 0 {
		wait, note = cell{text: span(p.Latency), value: p.Latency}, text("in turn")
	}
	switch {
	case p.Settings.Paused:
		note = toned("paused", warnTone)
	case p.IsBlocked:
		note = toned("at its limit", waitTone)
	}
	part := toned("–", dimTone)
	if share > 0 {
		part = cell{text: fmt.Sprintf("%.1f", 100*share), value: 100 * share}
	}
	return row{
		key: p.Key, ref: ref{kind: refPartition, queue: p.Queue, id: p.Key, paused: p.Settings.Paused},
		cells: []cell{
			name, count0(p.Held, waitTone), toned(bar(p.Held, most, 8), accentTone), count0(p.Active, goodTone), wait,
			part, note, toned(ownLimits(p.Settings), dimTone),
		},
	}
}

// ownLimits describes the limits that a partition has of its own.
func ownLimits(s asynq.PartitionSettings) string {
	var parts []string
	switch {
	case s.Concurrency > 0:
		parts = append(parts, strconv.Itoa(s.Concurrency)+" at once")
	case s.Concurrency < 0:
		parts = append(parts, "any number at once")
	}
	switch {
	case s.Rate.Events > 0:
		parts = append(parts, fmt.Sprintf("%d per %s", s.Rate.Events, span(s.Rate.Per)))
	case s.Rate.Events < 0:
		parts = append(parts, "no rate")
	}
	if s.Weight > 0 {
		parts = append(parts, "weight "+strconv.FormatFloat(s.Weight, 'g', -1, 64))
	}
	return strings.Join(parts, ", ")
}

// actionPartition returns the action of a key on a partition, or nil if there is none.
func (m *model) actionPartition(key string, r *ref) *action {
	if key != "p" {
		return nil
	}
	insp, queue, id := m.insp, r.queue, r.id
	of := "partition " + id + " of queue " + queue
	if id == "" {
		of = "the tasks of queue " + queue + " without a partition key"
	}
	if r.paused {
		return &action{verb: "Resume", of: of, do: func(ctx context.Context) (string, error) {
			return "resumed " + of, insp.ResumePartition(ctx, queue, id)
		}}
	}
	return &action{verb: "Pause", of: of, do: func(ctx context.Context) (string, error) {
		return "paused " + of, insp.PausePartition(ctx, queue, id)
	}}
}
