package dash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// listServers shows each server with its active tasks.
func (m *model) listServers() listing {
	l := listing{crumb: m.theme.paint(strongTone, "Servers and active tasks"), empty: "No running servers."}
	l.cols = []column{
		{title: "SERVER / TASK", minWidth: 14, maxWidth: 44}, {title: "STATUS / QUEUE", minWidth: 6, maxWidth: 20}, {title: "BUSY / FOR", right: true},
		{title: "", rank: 3}, {title: "UP / LEFT", right: true, rank: 1}, {title: "QUEUES / PAYLOAD", minWidth: 10, rank: 2},
	}
	if m.snap == nil {
		return l
	}
	now := m.now()
	busy := 0
	for _, s := range m.snap.servers {
		busy += len(s.ActiveWorkers)
		l.rows = append(l.rows, serverRow(s, now))
		for i, w := range s.ActiveWorkers {
			l.rows = append(l.rows, workerRow(s, w, i == len(s.ActiveWorkers)-1, now))
		}
	}
	l.info = fmt.Sprintf("%s · %s active", plural(len(m.snap.servers), "server"), plural(busy, "task"))
	return l
}

func serverRow(s *asynq.ServerInfo, now time.Time) row {
	status := toned("● "+clean(s.Status), goodTone)
	if s.Status != "active" {
		status = toned("○ "+clean(s.Status), warnTone)
	}
	if s.Worker != "" {
		status.text = strings.Replace(status.text, "active", "worker", 1)
	}
	busy := text(fmt.Sprintf("%d/%d", len(s.ActiveWorkers), s.Concurrency))
	busy.value = float64(len(s.ActiveWorkers))
	return row{key: s.ID, ref: ref{kind: refServer, id: s.ID}, cells: []cell{
		toned(cleanLine(serverName(s)), strongTone), status, busy,
		toned(bar(len(s.ActiveWorkers), s.Concurrency, 8), accentTone), text(ago(s.Started, now)), text(priorities(s)),
	}}
}

// serverName returns the host and the process of a server, or the name of a worker.
func serverName(s *asynq.ServerInfo) string {
	return cmp.Or(s.Worker, fmt.Sprintf("%s:%d", s.Host, s.PID))
}

// priorities formats the queues of a server with their weights, highest first.
func priorities(s *asynq.ServerInfo) string {
	names := slices.SortedFunc(maps.Keys(s.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Queues[b], s.Queues[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", cleanLine(name), s.Queues[name]))
	}
	for _, name := range s.PausedQueues {
		parts = append(parts, cleanLine(name)+" paused")
	}
	if s.StrictPriority {
		parts = append(parts, "(strict)")
	}
	if s.Patterns != nil {
		parts = append(parts, "handles "+cleanLine(cmp.Or(strings.Join(s.Patterns, ", "), "no types")))
	}
	return strings.Join(parts, " · ")
}

func workerRow(s *asynq.ServerInfo, w *asynq.WorkerInfo, last bool, now time.Time) row {
	branch := " ├ "
	if last {
		branch = " └ "
	}
	left := toned("–", dimTone)
	if !w.Deadline.IsZero() && w.Deadline.Year() < 2100 {
		left = text(until(w.Deadline, now))
		if w.Deadline.Sub(now) < 10*time.Second {
			left.tone = warnTone
		}
	}
	return row{
		child: true,
		key:   s.ID + "\x00" + w.Queue + "\x00" + w.TaskID,
		ref:   ref{kind: refTask, queue: w.Queue, id: w.TaskID, state: asynq.TaskStateActive, typ: w.TaskType, data: w.TaskPayload},
		cells: []cell{
			text(branch + cleanLine(w.TaskType)), text(cleanLine(w.Queue)), toned(ago(w.Started, now), goodTone), text(""), left,
			preview(w.TaskPayload),
		},
		more: w.TaskID,
	}
}
